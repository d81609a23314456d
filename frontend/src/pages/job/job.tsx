/** A job with its run: how it stands, its life on lanes over the loss curve, attempts, logs, checkpoints, events. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo, type ReactElement } from "react";

import type { YardEvent } from "../../api/events";
import type { JobDetail } from "../../api/jobs";
import { runQuery, type WholeRun } from "../../api/runs";
import { Fired } from "../../features/alerts/fired";
import { Panels } from "../../features/chart/panels";
import type { ChartSettings } from "../../features/chart/panel";
import { EventList } from "../../features/events/event-list";
import { JobActions } from "../../features/job/actions";
import { Attempts } from "../../features/job/attempts";
import { LogPane } from "../../features/job/log-pane";
import { JobNumbers } from "../../features/job/numbers";
import { JobBadge } from "../../features/job/parts";
import { useJob, useJobNames } from "../../features/job/use-job";
import { Claims, Trials } from "../../features/job/trials";
import { JobLanes } from "../../features/lanes/job-lanes";
import { IdleNote, OpenApp } from "../../features/terminal/open-app";
import "../../features/terminal/terminal.css";
import { Elsewhere } from "../../features/shell/elsewhere";
import { WhyCard } from "../../features/why-card/why-card";
import { colourOf } from "../../lib/colour";
import { ago, bytes, exact, grouped } from "../../lib/format";
import { leadMetric } from "../../lib/job-lanes";
import { jobLine } from "../../lib/job-lines";
import { asks, isOver, jobName } from "../../lib/job-states";
import { isSystem } from "../../lib/metric-names";
import type { Range } from "../../lib/range";
import { tagMap } from "../../lib/run-facts";
import { readZoom } from "../../lib/view";
import { Icon } from "../../ui/icon";
import { Copy, ErrorCard, PageHead, Skeleton, useNow, YardLine } from "../../ui/parts";
import { Request } from "./request";

/** Its emulator is large, and few jobs have a terminal. */
const Terminal = lazy(() => import("../../features/terminal/terminal"));

const TABS = [
  ["overview", "Overview"],
  ["charts", "Charts"],
  ["system", "System"],
  ["logs", "Logs"],
  ["checkpoints", "Checkpoints"],
  ["request", "Request"],
  ["events", "Events"],
] as const;
const TERMINAL = ["terminal", "Terminal"] as const;

export function JobPage(): ReactElement {
  const { jobId } = useParams({ from: "/app/jobs/$jobId" });
  const { detail, error, retry, events } = useJob(jobId);
  if (detail === undefined) {
    return error === null ? (
      <Skeleton rows={10} />
    ) : (
      <Elsewhere path={`/api/v1/jobs/${encodeURIComponent(jobId)}`} error={error}>
        <div className="page-body">
          <ErrorCard title="The job could not be read" error={error} retry={retry} />
          <div>
            <Link className="btn" to="/app/queue" search={{}}>
              The queue
            </Link>
          </div>
        </div>
      </Elsewhere>
    );
  }
  return <Loaded detail={detail} events={events} />;
}

type Search = Record<string, string>;

function Loaded({ detail, events }: { detail: JobDetail; events: YardEvent[] }): ReactElement {
  const { job } = detail;
  const search: Search = useSearch({ from: "/app/jobs/$jobId" });
  const navigate = useNavigate();
  const run = useQuery(runQuery(job.run_id));
  const nameOf = useJobNames(job.state === "queued");
  const tabs = job.interactive === "terminal" && job.state === "running" ? [TERMINAL, ...TABS] : TABS;
  const tab = tabs.some(([key]) => key === search.tab) ? (search.tab ?? "overview") : "overview";
  const key = JSON.stringify(search);
  const set = useCallback(
    (change: Record<string, string | undefined>): void => {
      const next = Object.entries({ ...(JSON.parse(key) as Search), ...change }).filter((entry): entry is [string, string] => entry[1] !== undefined);
      void navigate({ to: "/app/jobs/$jobId", params: { jobId: job.job_id }, search: Object.fromEntries(next), replace: true, resetScroll: false });
    },
    [key, navigate, job.job_id],
  );
  const params = tagMap(run.data?.run.data.params);
  const total = Number(params.get("max_steps") ?? params.get("total_steps") ?? Number.NaN);
  return (
    <>
      <Head detail={detail} />
      <JobNumbers detail={detail} total={Number.isFinite(total) && total > 0 ? total : null} reached={Math.max(0, ...(run.data?.metrics ?? []).filter((metric) => !isSystem(metric.key)).map((metric) => metric.step))} />
      {job.state === "queued" && (
        <div style={{ padding: "0 16px 12px" }}>
          <WhyCard job={job} reasons={detail.reasons} eta={detail.eta} position={detail.position} waiting={detail.waiting} nameOf={nameOf} />
        </div>
      )}
      {isOver(job) && job.state === "failed" && (
        <div style={{ padding: "0 16px 12px" }}>
          <Failure detail={detail} onLog={() => set({ tab: "logs" })} />
        </div>
      )}
      <IdleNote job={job} />
      <Fired job={job.job_id} />
      <div className="tabs" role="tablist" aria-label="Parts of the job">
        {tabs.map(([word, title]) => (
          <button key={word} type="button" role="tab" aria-selected={word === tab} onClick={() => set({ tab: word })}>
            {title}
            {word === "checkpoints" && detail.checkpoints.length > 0 && <span className="faint"> {detail.checkpoints.length}</span>}
          </button>
        ))}
      </div>
      <Tab tab={tab} detail={detail} events={events} run={run.data} search={search} set={set} />
    </>
  );
}

interface TabProps {
  tab: string;
  detail: JobDetail;
  events: YardEvent[];
  run: WholeRun | undefined;
  search: Search;
  set: (change: Record<string, string | undefined>) => void;
}

function Tab(props: TabProps): ReactElement {
  const { tab, detail, events, search, set } = props;
  const choose = ({ attempt, rank }: { attempt?: number; rank?: number }): void =>
    set({ ...(attempt === undefined ? {} : { attempt: String(attempt) }), ...(rank === undefined ? {} : { rank: String(rank) }) });
  const number = (text: string | undefined): number | undefined => (text === undefined || !/^\d+$/.test(text) ? undefined : Number(text));
  switch (tab) {
    case "terminal":
      return (
        <div className="page-body">
          <Suspense fallback={<Skeleton rows={8} />}>
            <Terminal job={detail.job.job_id} />
          </Suspense>
        </div>
      );
    case "logs":
      return (
        <div className="page-body">
          <LogPane detail={detail} attempt={number(search.attempt)} rank={number(search.rank)} onChoose={choose} />
        </div>
      );
    case "checkpoints":
      return <Checkpoints detail={detail} />;
    case "request":
      return <Request detail={detail} />;
    case "events":
      return (
        <div className="page-body">
          <section className="card">
            <EventList events={events} fields />
          </section>
        </div>
      );
    default:
      return <Timed {...props} />;
  }
}

/** The tabs that stand on the axis of time: lanes, and charts below them. */
function Timed({ tab, detail, events, run, search, set }: TabProps): ReactElement {
  const now = useNow(isOver(detail.job) ? 60_000 : 2000);
  const zoom = readZoom(search.zoom);
  const zoomKey = search.zoom ?? "";
  const span = useMemo<Range | null>(() => {
    const ends = readZoom(zoomKey);
    return ends === null ? null : [ends[0] * 1000, ends[1] * 1000];
  }, [zoomKey]);
  const setSpan = useCallback((next: Range | null) => set({ zoom: next === null ? undefined : `${Math.round(next[0]) / 1000}~${Math.round(next[1]) / 1000}` }), [set]);
  const names = (run?.metrics ?? []).map((metric) => metric.key).join("\n");
  const metrics = useMemo(() => (names === "" ? [] : names.split("\n")), [names]);
  const shown = useMemo(() => metrics.filter((name) => isSystem(name) === (tab === "system")), [metrics, tab]);
  const { job } = detail;
  const runs = useMemo(() => [{ id: job.run_id, name: job.name, start: job.started_ms }], [job.run_id, job.name, job.started_ms]);
  const settings = useMemo<ChartSettings>(
    () => ({
      axis: "time",
      logX: false,
      logY: false,
      smoothing: 0,
      band: true,
      orphans: true,
      zoom: span === null ? null : [span[0] / 1000, span[1] / 1000],
      onZoom: (next) => setSpan(next === null ? null : [next[0] * 1000, next[1] * 1000]),
      lit: null,
    }),
    [span, setSpan],
  );
  return (
    <div className="page-body">
      <section className="card" aria-label="Timeline">
        <JobLanes detail={detail} events={events} now={now} span={span} onSpan={setSpan} metric={tab === "overview" ? leadMetric(metrics) : null} />
      </section>
      {tab === "overview" ? (
        <>
        <section className="card" aria-label="Attempts">
          <div className="card-head">
            <h2>Attempts</h2>
            <span className="faint grow">{detail.attempts.length}</span>
          </div>
          <Attempts attempts={detail.attempts} onLog={(attempt) => set({ tab: "logs", attempt: String(attempt) })} />
        </section>
        <Later detail={detail} />
        </>
      ) : shown.length === 0 ? (
        <p className="muted">{tab === "system" ? "The machine is sampled every few seconds while the job runs; nothing came yet." : "No metric was logged yet; the first point appears by itself."}</p>
      ) : (
        <div>
          {zoom !== null && <p className="faint">Zoomed to {exact(zoom[0] * 1000)} – {exact(zoom[1] * 1000)}</p>}
          <Panels metrics={shown} runs={runs} settings={settings} search="" pinned={[]} folded={[]} machineOpen onFold={() => undefined} />
        </div>
      )}
    </div>
  );
}

/** What a job did after its start: the trials of its search, and the nodes held for them or for its workers. */
function Later({ detail }: { detail: JobDetail }): ReactElement {
  const { trials = [], claims = [] } = detail;
  return (
    <>
      {trials.length > 0 && (
        <section className="card" aria-label="Trials">
          <div className="card-head">
            <h2>Trials</h2>
            <span className="faint grow">{trials.length}</span>
          </div>
          <Trials trials={trials} />
        </section>
      )}
      {claims.length > 0 && (
        <section className="card" aria-label="Held for its workers and trials">
          <div className="card-head">
            <h2>Held for its workers and trials</h2>
            <span className="faint grow">{claims.length}</span>
          </div>
          <Claims claims={claims} />
        </section>
      )}
    </>
  );
}

function Head({ detail }: { detail: JobDetail }): ReactElement {
  const { job } = detail;
  const now = useNow(10_000);
  return (
    <PageHead
      title={
        <>
          <span className="dot" style={{ background: colourOf(job.run_id), width: 12, height: 12 }} />
          {jobName(job)}
        </>
      }
      facts={
        <>
          <JobBadge job={job} />
          <span>{asks(job)}</span>
          <span title={`submitted ${exact(job.submitted_ms)}`}>{ago(job.submitted_ms, now)}</span>
          <span>
            {job.user} · {job.queue}
            {job.priority !== "normal" && ` · ${job.priority}`}
            {job.preemptible && " · preemptible"}
          </span>
          <span className="row mono" style={{ gap: 2 }}>
            {job.job_id}
            <Copy text={job.job_id} label="Copy the job id" />
          </span>
        </>
      }
    >
      <Link className="btn" to="/app/runs/$runId" params={{ runId: job.run_id }} search={{}}>
        <Icon name="runs" />
        Run
      </Link>
      <OpenApp job={job} />
      <JobActions job={job} />
    </PageHead>
  );
}

function Failure({ detail, onLog }: { detail: JobDetail; onLog: () => void }): ReactElement {
  const last = detail.attempts[detail.attempts.length - 1];
  return (
    <div className="note-box red">
      <strong className="row tone-red">
        <Icon name="cross" />
        {detail.job.sentence ?? last?.sentence ?? "It failed."}
      </strong>
      {last !== undefined && last.error_line !== null && <code>{last.error_line}</code>}
      {typeof detail.hint === "string" && <p>{detail.hint}</p>}
      <div>
        <button type="button" className="btn small" onClick={onLog}>
          See the log
        </button>
      </div>
    </div>
  );
}

function Checkpoints({ detail }: { detail: JobDetail }): ReactElement {
  const now = useNow(10_000);
  if (detail.checkpoints.length === 0) {
    return (
      <div className="empty">
        <h2>No checkpoint</h2>
        <p className="muted">A job that saves its state goes on from there when its node dies or it makes room for another:</p>
        <pre>{`from trackyard import checkpoint

checkpoint.catch_stop()
state = checkpoint.load()
…
checkpoint.save({"step": step, "model": model.state_dict()}, step=step)`}</pre>
      </div>
    );
  }
  return (
    <div className="page-body">
      <section className="card scroll-x">
        <table className="plain">
          <thead>
            <tr>
              <th className="num">Step</th>
              <th className="num">Attempt</th>
              <th className="num">Size</th>
              <th>Saved</th>
              <th>Name</th>
            </tr>
          </thead>
          <tbody>
            {detail.checkpoints.map((one, at) => (
              <tr key={one.name}>
                <td className="num">
                  <b>{grouped(one.step)}</b>
                </td>
                <td className="num">{one.attempt}</td>
                <td className="num">{bytes(one.size_bytes)}</td>
                <td title={exact(one.created_ms)}>{ago(one.created_ms, now)}</td>
                <td className="mono">
                  {one.name} {at === 0 && <span className="chip accent">resumes from here</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <YardLine line={jobLine.show(detail.job.job_id)} />
    </div>
  );
}
