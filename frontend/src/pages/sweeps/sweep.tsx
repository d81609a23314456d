/** One sweep: best so far, importance, rungs, parallel coordinates, slices, its trials, what it costs. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import { sweepQuery, type SweepDetail } from "../../api/sweeps";
import { ParallelPlot } from "../../features/explore/parallel";
import { ScatterPlot } from "../../features/explore/scatter";
import { Elsewhere } from "../../features/shell/elsewhere";
import { duration, full, short } from "../../lib/format";
import { explored, progressWords, ranked } from "../../lib/sweeps";
import { Ago, Copy, ErrorCard, PageHead, Skeleton, YardLine } from "../../ui/parts";
import "../../features/explore/explore.css";
import { SweepActions } from "./actions";
import { BestChart, Importance, Rungs } from "./overview";
import "./sweeps.css";
import { SweepBadge } from "./sweeps";

const TABS = [
  ["overview", "Overview"],
  ["parallel", "Parallel coordinates"],
  ["slices", "Slices"],
  ["trials", "Trials"],
] as const;
const MAX_ROWS = 500;

export function SweepPage(): ReactElement {
  const { sweepId } = useParams({ from: "/app/sweeps/$sweepId" });
  const sweep = useQuery(sweepQuery(sweepId));
  if (sweep.data === undefined) {
    return sweep.error === null ? (
      <Skeleton rows={10} />
    ) : (
      <Elsewhere path={`/api/v1/sweeps/${encodeURIComponent(sweepId)}`} error={sweep.error}>
        <div className="page-body">
          <ErrorCard title="The sweep could not be read" error={sweep.error} retry={() => void sweep.refetch()} />
        </div>
      </Elsewhere>
    );
  }
  return <Loaded detail={sweep.data} />;
}

function Loaded({ detail }: { detail: SweepDetail }): ReactElement {
  const { sweep } = detail;
  const search: Record<string, string> = useSearch({ from: "/app/sweeps/$sweepId" });
  const navigate = useNavigate();
  const tab = TABS.find(([key]) => key === search.tab)?.[0] ?? "overview";
  return (
    <>
      <PageHead title={sweep.name} facts={<Facts detail={detail} />}>
        <SweepActions detail={detail} />
      </PageHead>
      <Numbers detail={detail} />
      {sweep.sentence !== "" && (
        <div style={{ padding: "0 16px 12px" }}>
          <div className={`note-box${sweep.state === "failed" ? " red" : ""}`}>{sweep.sentence}</div>
        </div>
      )}
      <div className="tabs" role="tablist" aria-label="Parts of the sweep">
        {TABS.map(([key, title]) => (
          <button
            key={key}
            type="button"
            role="tab"
            aria-selected={key === tab}
            onClick={() =>
              void navigate({ to: "/app/sweeps/$sweepId", params: { sweepId: sweep.sweep_id }, search: { tab: key }, replace: true })
            }
          >
            {title}
          </button>
        ))}
      </div>
      <div className="page-body">
        <Tab tab={tab} detail={detail} />
        <YardLine line={`yard sweeps show ${sweep.sweep_id}`} />
      </div>
    </>
  );
}

function Facts({ detail }: { detail: SweepDetail }): ReactElement {
  const { sweep } = detail;
  return (
    <>
      <SweepBadge word={sweep.state} />
      <code>{sweep.sweep_id}</code>
      <Copy text={sweep.sweep_id} />
      <span>
        {sweep.goal} {sweep.metric} by {sweep.sampler}
        {sweep.stop === "none" ? "" : `, ${sweep.stop}`}
      </span>
      {sweep.origin !== "" && (
        <Link to="/app/sweeps/$sweepId" params={{ sweepId: sweep.origin }} search={{}}>
          around {sweep.origin}
        </Link>
      )}
      <span>
        {sweep.user}, <Ago ms={sweep.created_ms} />
      </span>
    </>
  );
}

function Numbers({ detail }: { detail: SweepDetail }): ReactElement {
  const { sweep, cost, best } = detail;
  const isRunning = sweep.state === "running";
  const running = sweep.counts.running ?? 0;
  return (
    <dl className="sweep-numbers">
      <div>
        <dt>Best {sweep.metric}</dt>
        <dd title={full(best?.value)}>{best === null ? "—" : short(best.value)}</dd>
      </div>
      <div>
        <dt>Trials ended</dt>
        <dd>{progressWords(sweep.counts, sweep.trials)}</dd>
      </div>
      <div>
        <dt>Slots in use</dt>
        <dd>
          {Math.min(running, sweep.slots)} / {sweep.slots}
        </dd>
      </div>
      <div>
        <dt>Time</dt>
        <dd>
          {duration(cost.seconds * 1000)}
          {isRunning && cost.total_seconds !== null && <span className="faint"> of about {duration(cost.total_seconds * 1000)}</span>}
        </dd>
      </div>
      <div>
        <dt>GPU-hours</dt>
        <dd>
          {short(cost.gpu_hours)}
          {isRunning && cost.total_gpu_hours !== null && <span className="faint"> of about {short(cost.total_gpu_hours)}</span>}
        </dd>
      </div>
    </dl>
  );
}

function Tab({ tab, detail }: { tab: string; detail: SweepDetail }): ReactElement {
  const names = useMemo(() => Object.keys(detail.space), [detail.space]);
  const data = useMemo(() => explored(detail.trials, names), [detail.trials, names]);
  const titles = useMemo(() => [...names, detail.sweep.metric], [names, detail.sweep.metric]);
  if (tab === "trials") {
    return <Trials detail={detail} names={names} />;
  }
  if (data.length === 0) {
    return (
      <div className="empty">
        <h2>No trial has reported {detail.sweep.metric} yet</h2>
        <p className="muted">
          <code>{detail.command}</code>
        </p>
      </div>
    );
  }
  if (tab === "parallel") {
    return <ParallelPlot data={data} titles={titles} />;
  }
  if (tab === "slices") {
    return (
      <div className="sweep-slices">
        {names.map((name, at) => (
          <section key={name} className="card" aria-label={`Slice of ${name}`}>
            <ScatterPlot
              data={data.map((one) => ({ ...one, values: [one.values[at] ?? null, one.values[names.length] ?? null] }))}
              titles={[name, detail.sweep.metric]}
            />
          </section>
        ))}
      </div>
    );
  }
  return (
    <div className="sweep-overview">
      <BestChart detail={detail} />
      <BestValues detail={detail} />
      <Importance detail={detail} />
      <Rungs detail={detail} />
    </div>
  );
}

function BestValues({ detail }: { detail: SweepDetail }): ReactElement | null {
  const { best } = detail;
  if (best === null) {
    return null;
  }
  return (
    <section className="card" aria-label="Best trial">
      <div className="card-head">
        <h2 className="grow">Best trial</h2>
        <Link to="/app/runs/$runId" params={{ runId: best.run_id }} search={{}}>
          trial {best.number}
        </Link>
      </div>
      <table className="plain">
        <tbody>
          {Object.entries(best.params).map(([name, value]) => (
            <tr key={name}>
              <td className="muted">{name}</td>
              <td title={String(value)}>{typeof value === "number" ? short(value) : String(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Trials({ detail, names }: { detail: SweepDetail; names: readonly string[] }): ReactElement {
  const rows = useMemo(() => ranked(detail.trials, detail.sweep.goal), [detail.trials, detail.sweep.goal]);
  return (
    <section className="card" style={{ overflow: "auto" }} aria-label="Trials">
      <table className="plain">
        <thead>
          <tr>
            <th>Trial</th>
            <th>State</th>
            <th>{detail.sweep.metric}</th>
            <th>Step</th>
            {names.map((name) => (
              <th key={name}>{name}</th>
            ))}
            <th>Time</th>
            <th>Job</th>
            <th>Why</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_ROWS).map((trial) => (
            <tr key={trial.number}>
              <td>
                <Link to="/app/runs/$runId" params={{ runId: trial.run_id }} search={{}}>
                  {trial.number}
                </Link>
                {trial.parent !== null && <span className="faint"> from {trial.parent}</span>}
              </td>
              <td>
                <SweepBadge word={trial.state} />
              </td>
              <td title={full(trial.value)}>{short(trial.value)}</td>
              <td>{trial.step ?? "—"}</td>
              {names.map((name) => (
                <td key={name} title={String(trial.params[name] ?? "")}>
                  {typeof trial.params[name] === "number" ? short(trial.params[name]) : String(trial.params[name] ?? "—")}
                </td>
              ))}
              <td>{duration(trial.seconds * 1000)}</td>
              <td>
                <Link to="/app/jobs/$jobId" params={{ jobId: trial.job_id }} search={{}}>
                  {trial.job_id}
                </Link>
              </td>
              <td className="muted clip" style={{ maxWidth: 360 }} title={trial.sentence}>
                {trial.sentence}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MAX_ROWS && (
        <p className="faint">
          The best {MAX_ROWS} of {rows.length}; `yard sweeps show --all` has them all.
        </p>
      )}
    </section>
  );
}
