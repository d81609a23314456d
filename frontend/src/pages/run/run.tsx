/** One run: what it is, how it goes, what it left. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useState, type ReactElement } from "react";

import "../../features/chart/chart.css";
import "./run.css";
import { renameRun, restoreRun, runQuery, TAGS, type WholeRun } from "../../api/runs";
import { jobQuery } from "../../api/jobs";
import { Fired } from "../../features/alerts/fired";
import { DeleteDialog, starAll } from "../../features/actions/bulk";
import { JOB_TAG, RunJobLog, RunJobStrip } from "../../features/job/run-job";
import { Elsewhere } from "../../features/shell/elsewhere";
import type { MediaRun } from "../../features/media/media";
import { TracesTab } from "../../features/traces/traces";
import { colourOf } from "../../lib/colour";
import { ago, count, duration, exact, grouped, short } from "../../lib/format";
import { METHOD_TAG } from "../../lib/finetune";
import { isSystem } from "../../lib/metric-names";
import { tagMap } from "../../lib/run-facts";
import { isLive, shownStatus } from "../../lib/states";
import { few, yard } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { Dialog, MenuButton, MenuItem } from "../../ui/menu";
import { Copy, ErrorCard, IconButton, PageHead, Skeleton, StateBadge, useNow, YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";
import { ArtifactsTab, EventsTab, LogsTab } from "./tabs";
import { ChartsTab } from "./charts-tab";
import { Overview } from "./overview";

const MediaView = lazy(() => import("../../features/media/media").then((found) => ({ default: found.MediaView })));

const FineTuneTab = lazy(() => import("../../features/finetune/finetune-tab").then((found) => ({ default: found.FineTuneTab })));

const RunLogbook = lazy(() => import("../../features/logbook/run-logbook").then((found) => ({ default: found.RunLogbook })));
const RunTimeline = lazy(() => import("../../features/logbook/run-timeline").then((found) => ({ default: found.RunTimeline })));

const TABS = [
  ["charts", "Charts"],
  ["finetune", "Fine-tuning"],
  ["overview", "Overview"],
  ["media", "Media"],
  ["system", "System"],
  ["artifacts", "Artifacts"],
  ["traces", "Traces"],
  ["logs", "Logs"],
  ["timeline", "Timeline"],
  ["logbook", "Logbook"],
  ["events", "Events"],
] as const;

export function RunPage(): ReactElement {
  const { runId } = useParams({ from: "/app/runs/$runId" });
  const run = useQuery(runQuery(runId));
  if (run.error !== null && run.data === undefined) {
    return (
      <Elsewhere path={`/api/v1/runs/${encodeURIComponent(runId)}`} error={run.error}>
        <div className="page-body">
          <ErrorCard title="The run could not be read" error={run.error} retry={() => void run.refetch()} />
          <div>
            <Link className="btn" to="/app/runs" search={{}}>
              All runs
            </Link>
          </div>
        </div>
      </Elsewhere>
    );
  }
  return run.data === undefined ? <Skeleton rows={10} /> : <Loaded whole={run.data} />;
}

function Loaded({ whole }: { whole: WholeRun }): ReactElement {
  const { info, data } = whole.run;
  const search = useSearch({ from: "/app/runs/$runId" });
  const navigate = useNavigate();
  const first = whole.metrics.some((metric) => !isSystem(metric.key)) ? "charts" : "overview";
  const tab = TABS.some(([key]) => key === search.tab) ? search.tab : first;
  const tags = tagMap(data.tags);
  const job = tags.get(JOB_TAG);
  const own = useQuery({ ...jobQuery(job ?? ""), enabled: job !== undefined });
  const set = (change: Record<string, string>): void =>
    void navigate({ to: "/app/runs/$runId", params: { runId: info.run_id }, search: { ...search, ...change }, replace: true, resetScroll: false });
  return (
    <>
      <Head whole={whole} tags={tags} />
      <Strip whole={whole} job={job} />
      <div className="tabs" role="tablist" aria-label="Parts of the run">
        {TABS.filter(([key]) => key !== "finetune" || tags.has(METHOD_TAG)).map(([key, word]) => (
          <button key={key} type="button" role="tab" aria-selected={key === tab} onClick={() => set({ tab: key })}>
            {word}
          </button>
        ))}
      </div>
      {tab === "overview" && <Overview whole={whole} tags={tags} />}
      {tab === "charts" && <ChartsTab whole={whole} system={false} job={own.data} />}
      {tab === "finetune" && <FineTune whole={whole} tags={tags} />}
      {tab === "media" && <Media id={info.run_id} name={info.run_name} artifactUri={info.artifact_uri} />}
      {tab === "system" && <ChartsTab whole={whole} system job={own.data} />}
      {tab === "artifacts" && <ArtifactsTab whole={whole} path={search.path ?? ""} onPath={(path) => set({ path })} />}
      {tab === "traces" && <TracesTab experiment={info.experiment_id} run={info.run_id} />}
      {tab === "logs" && (job === undefined ? <LogsTab whole={whole} /> : <RunJobLog job={job} attempt={Number(search.attempt ?? 0)} at={Number(search.at ?? 0)} />)}
      {(tab === "timeline" || tab === "logbook") && (
        <Suspense fallback={<Skeleton />}>
          {tab === "logbook" ? (
            <RunLogbook run={info.run_id} artifactUri={info.artifact_uri} search={search} onSearch={set} />
          ) : (
            <RunTimeline whole={whole} job={own.data} search={search} onSearch={set} />
          )}
        </Suspense>
      )}
      {tab === "events" && <EventsTab run={info.run_id} />}
    </>
  );
}

/** The strip of numbers below the head: a job's where the run has one. */
function Strip({ whole, job }: { whole: WholeRun; job: string | undefined }): ReactElement {
  return job === undefined ? (
    <>
      <Numbers whole={whole} />
      <Fired run={whole.run.info.run_id} />
    </>
  ) : (
    <>
      <RunJobStrip job={job} whole={whole} />
      <Fired job={job} />
    </>
  );
}

function FineTune({ whole, tags }: { whole: WholeRun; tags: ReadonlyMap<string, string> }): ReactElement {
  return (
    <Suspense fallback={<Skeleton />}>
      <FineTuneTab whole={whole} method={tags.get(METHOD_TAG) ?? ""} />
    </Suspense>
  );
}

function Media(run: MediaRun): ReactElement {
  return (
    <Suspense fallback={<Skeleton />}>
      <MediaView runs={[run]} />
    </Suspense>
  );
}

function Head({ whole, tags }: { whole: WholeRun; tags: ReadonlyMap<string, string> }): ReactElement {
  const { info } = whole.run;
  const [open, setOpen] = useState<"rename" | "delete" | null>(null);
  const client = useQueryClient();
  const now = useNow(10_000);
  const starred = tags.get(TAGS.star) === "1";
  const refresh = (): void => void client.invalidateQueries({ queryKey: ["run"] });
  const star = (): void => {
    void starAll([info.run_id], !starred).then(refresh);
  };
  const restore = (): void => {
    restoreRun(info.run_id).then(
      () => {
        toast("Restored", null, yard.restore([info.run_id]));
        refresh();
      },
      (cause: unknown) => complain("The run was not restored", cause),
    );
  };
  const deleted = info.lifecycle_stage === "deleted";
  return (
    <>
      <PageHead
        title={
          <>
            <span className="dot" style={{ background: colourOf(info.run_id), width: 12, height: 12 }} />
            {info.run_name}
            <IconButton icon="star" label={starred ? "Remove star" : "Star"} filled={starred} onClick={star} />
          </>
        }
        facts={
          <>
            <RunState whole={whole} now={now} />
            {deleted && <span className="chip">deleted</span>}
            <Link to="/app/runs" search={{ exp: info.experiment_id }}>
              {whole.experiment_name}
            </Link>
            <span title={exact(info.start_time)}>{ago(info.start_time, now)}</span>
            <span>{info.user_id}</span>
            <span className="row mono" style={{ gap: 2 }}>
              {info.run_id.slice(0, 8)}
              <Copy text={info.run_id} label="Copy the run id" />
            </span>
          </>
        }
      >
        <MenuButton name="Actions" label="Actions" width={250}>
          {(close) => (
            <>
              <MenuItem
                icon="edit"
                onClick={() => {
                  close();
                  setOpen("rename");
                }}
              >
                Rename
              </MenuItem>
              {deleted ? (
                <MenuItem icon="restore" onClick={restore}>
                  Restore
                </MenuItem>
              ) : (
                <MenuItem
                  icon="trash"
                  danger
                  onClick={() => {
                    close();
                    setOpen("delete");
                  }}
                >
                  Delete
                </MenuItem>
              )}
              <hr />
              <div className="menu-head">In a terminal</div>
              <YardLine line={yard.show(info.run_id)} />
            </>
          )}
        </MenuButton>
      </PageHead>
      {open === "rename" && <Rename id={info.run_id} name={info.run_name} onClose={() => setOpen(null)} onDone={refresh} />}
      {open === "delete" && (
        <DeleteDialog
          runs={few([info.run_id])}
          what={info.run_name}
          onClose={() => setOpen(null)}
          onDone={() => {
            setOpen(null);
            refresh();
          }}
        />
      )}
    </>
  );
}

/** The state; a run without a job that was not heard of for a while says for how long. */
function RunState({ whole, now }: { whole: WholeRun; now: number }): ReactElement {
  const { info, data } = whole.run;
  const heard = tagMap(data.tags).has(JOB_TAG) ? null : whole.metrics.reduce((most, metric) => Math.max(most, metric.time_ms), info.start_time ?? 0);
  const shown = shownStatus(info.status, heard, now);
  return (
    <>
      <StateBadge status={shown} />
      {shown !== info.status && <span className="muted">no data for {duration(now - (heard ?? now))}; its process may be gone</span>}
    </>
  );
}

function Rename({ id, name, onClose, onDone }: { id: string; name: string; onClose: () => void; onDone: () => void }): ReactElement {
  const [text, setText] = useState(name);
  const save = (): void => {
    renameRun(id, text.trim()).then(
      () => {
        onDone();
        onClose();
      },
      (cause: unknown) => complain("The run was not renamed", cause),
    );
  };
  return (
    <Dialog title={`Rename ${name}`} onClose={onClose}>
      <label className="label">
        Name
        <input className="field" value={text} onChange={(event) => setText(event.target.value)} onKeyDown={(event) => event.key === "Enter" && save()} />
      </label>
      <YardLine line={yard.rename(id, text)} />
      <div className="dialog-foot">
        <button type="button" className="btn primary" disabled={text.trim() === ""} onClick={save}>
          Rename
        </button>
      </div>
    </Dialog>
  );
}

/** The strip of numbers: how long, how far, how it stands. */
function Numbers({ whole }: { whole: WholeRun }): ReactElement {
  const { info } = whole.run;
  const now = useNow(1000);
  const own = whole.metrics.filter((metric) => !isSystem(metric.key));
  const step = own.reduce((most, metric) => Math.max(most, metric.step), 0);
  const last = whole.metrics.reduce((most, metric) => Math.max(most, metric.time_ms), 0);
  const total = Number(tagMap(whole.run.data.params).get("max_steps") ?? Number.NaN);
  const end = info.end_time ?? (isLive(info.status) ? now : null);
  const span = info.start_time === null || end === null ? null : end - info.start_time;
  const lead = own.find((metric) => /^(val|test|eval).*(acc|loss|auc)/.test(metric.key)) ?? own[0];
  return (
    <dl className="numbers">
      <div>
        <dt>Duration</dt>
        <dd>{duration(span)}</dd>
      </div>
      <div>
        <dt>Step</dt>
        <dd>
          {grouped(step)}
          {Number.isFinite(total) && step <= total && (
            <>
              <span className="muted"> / {grouped(total)}</span> <progress max={total} value={step} aria-label="Progress" />
            </>
          )}
        </dd>
      </div>
      {isLive(info.status) && last > 0 && (
        <div>
          <dt>Last point</dt>
          <dd>{ago(last, now)}</dd>
        </div>
      )}
      {lead !== undefined && (
        <div>
          <dt>{lead.key}</dt>
          <dd title={String(lead.last)}>
            {short(lead.last)} {lead.min !== lead.max && <span className="muted">({short(lead.min)} to {short(lead.max)})</span>}
          </dd>
        </div>
      )}
      <div>
        <dt>Logged</dt>
        <dd className="muted">
          {count(own.length, "metric")}, {count(whole.run.data.params?.length ?? 0, "parameter")}
        </dd>
      </div>
      {info.status === "FAILED" && (
        <div className="tone-red row">
          <Icon name="cross" />
          see the log for the reason
        </div>
      )}
    </dl>
  );
}
