/** Home, for the morning: what failed, runs and waits of mine, the GPUs, the next leases, what changed since I was here. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState, type ReactElement } from "react";

import "../../features/table/table.css";
import { clusterQuery } from "../../api/cluster";
import { eventsQuery } from "../../api/events";
import { jobsQuery, type Job } from "../../api/jobs";
import { myLeasesQuery } from "../../api/leases";
import { modelsQuery } from "../../api/models";
import { experimentsQuery, namesQuery, type RunsTable, type TableWish } from "../../api/runs";
import { EventList } from "../../features/events/event-list";
import { GpuStrip } from "../../features/gpu-map/gpu-strip";
import { JobBadge, moment } from "../../features/job/parts";
import { etaWords } from "../../features/job/eta";
import { Sparkline } from "../../features/table/sparkline";
import { useRuns } from "../../features/table/use-runs";
import { colourOf } from "../../lib/colour";
import { count, grouped, short } from "../../lib/format";
import { asks, jobName } from "../../lib/job-states";
import { endOf } from "../../lib/queue-axis";
import { isStuck } from "../../lib/reasons";
import { shownStatus } from "../../lib/states";
import { Ago, Duration, ErrorCard, Skeleton, StateBadge, useNow } from "../../ui/parts";
import { NoRuns } from "../../features/teach/no-runs";

const COUNT = 8;
/** How long a failure stays on this page. */
const DAYS = 3 * 86_400_000;

/** The metrics to show of a run: those that say best how it goes. */
export function leading(metrics: readonly string[]): string[] {
  const rank = (name: string): number =>
    /^(val|eval)[/_].*(acc|loss|auc)/.test(name) ? 0 : /^(train[/_])?loss|^auc/.test(name) ? 1 : /loss|acc/.test(name) ? 2 : 3;
  return metrics.filter((name) => !name.startsWith("system/")).sort((a, b) => rank(a) - rank(b)).slice(0, 8);
}

function wish(ids: readonly string[], filter: string, limit: number): Omit<TableWish, "metrics" | "params" | "tags"> {
  return { experiment_ids: ids, filter, order_by: ["attributes.start_time DESC"], view: "ACTIVE_ONLY", limit };
}

export function HomePage(): ReactElement {
  const experiments = useQuery(experimentsQuery());
  const jobs = useQuery(jobsQuery({ limit: 1 }));
  const ids = useMemo(() => (experiments.data ?? []).slice(0, 200).map((one) => one.experiment_id).toSorted(), [experiments.data]);
  const names = useQuery(namesQuery(ids));
  const metrics = useMemo(() => leading(names.data?.metrics ?? []), [names.data]);
  const columns = useMemo(() => metrics.map((name) => `metric:${name}`), [metrics]);
  const nameOf = useMemo(() => new Map((experiments.data ?? []).map((one) => [one.experiment_id, one.name])), [experiments.data]);
  const running = useRuns(useMemo(() => wish(ids, "attributes.status = 'RUNNING'", 50), [ids]), columns);
  const recent = useRuns(useMemo(() => wish(ids, "", COUNT), [ids]), columns);
  if (experiments.error !== null) {
    return (
      <div className="page-body">
        <ErrorCard title="The runs could not be read" error={experiments.error} retry={() => void experiments.refetch()} />
      </div>
    );
  }
  if (experiments.data !== undefined && experiments.data.every((one) => one.runs === 0) && jobs.data !== undefined && Object.values(jobs.data.counts).every((number) => number === 0)) {
    return <NoRuns />;
  }
  return (
    <div className="page-body columns-2">
      <div className="stack">
        <Failures />
        <MyJobs />
        <RunsCard title="Running now" empty="Nothing is running." table={running.state.table} metrics={metrics} nameOf={nameOf} />
        <RunsCard agoToo title="Recent runs" empty="" table={recent.state.table} metrics={metrics} nameOf={nameOf} />
      </div>
      <div className="stack">
        <Gpus />
        <NextLeases />
        <Events />
        <Models />
      </div>
    </div>
  );
}

interface CardProps {
  title: string;
  empty: string;
  table: RunsTable | null;
  metrics: readonly string[];
  nameOf: ReadonlyMap<string, string>;
  agoToo?: boolean;
}

function RunsCard({ title, empty, table, metrics, nameOf, agoToo = false }: CardProps): ReactElement {
  const now = useNow(60_000);
  return (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        <span className="faint">{table?.run_id.length}</span>
      </div>
      {table === null ? (
        <Skeleton rows={4} />
      ) : table.run_id.length === 0 ? (
        <p className="faint" style={{ padding: 12 }}>{empty}</p>
      ) : (
        <table className="plain home-runs">
          <tbody>
            {table.run_id.map((id, row) => {
              const lead = metrics.find((name) => (table.metrics[name]?.last[row] ?? null) !== null);
              return (
                <tr key={id}>
                  <td className="clip" style={{ maxWidth: 128 }}>
                    <Link className="row run-name" to="/app/runs/$runId" params={{ runId: id }} search={{}}>
                      <span className="dot" style={{ background: colourOf(id) }} />
                      <span className="clip">{table.name[row]}</span>
                    </Link>
                  </td>
                  <td>
                    <StateBadge status={shownStatus(table.status[row] ?? "", table.heard_ms[row], now)} />
                  </td>
                  <td className="wide-only clip" style={{ maxWidth: 80 }}>
                    <Link className="muted" to="/app/runs" search={{ exp: table.experiment_id[row] ?? "" }}>
                      {nameOf.get(table.experiment_id[row] ?? "")}
                    </Link>
                  </td>
                  <td className="wide-only">{lead !== undefined && <Sparkline run={id} metric={lead} colour={colourOf(id)} width={64} height={18} />}</td>
                  <td className="faint wide-only clip" style={{ maxWidth: 66 }} title={lead}>
                    {lead}
                  </td>
                  <td className="num">{lead !== undefined && short(table.metrics[lead]?.last[row])}</td>
                  <td className="num muted">
                    <Duration start={table.start_ms[row] ?? null} end={table.end_ms[row]} status={table.status[row] ?? ""} />
                  </td>
                  {agoToo && (
                    <td className="num muted wide-only nowrap">
                      <Ago ms={table.start_ms[row]} />
                    </td>
                  )}
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Models(): ReactElement {
  const models = useQuery(modelsQuery());
  return (
    <section className="card" aria-label="Recent models">
      <div className="card-head">
        <h2>Recent models</h2>
      </div>
      {models.data === undefined ? (
        <Skeleton rows={2} />
      ) : models.data.length === 0 ? (
        <p className="faint" style={{ padding: 12 }}>No model is registered yet. A run&apos;s artifacts offer it.</p>
      ) : (
        <table className="plain">
          <tbody>
            {models.data.slice(0, 6).map((model) => (
              <tr key={model.name}>
                <td>
                  <Link to="/app/models/$name" params={{ name: model.name }} search={{}}>
                    {model.name}
                  </Link>
                </td>
                <td>
                  {model.aliases?.map(({ alias, version }) => (
                    <span key={alias} className="chip accent" style={{ marginRight: 4 }}>
                      @{alias} v{version}
                    </span>
                  ))}
                </td>
                <td className="num muted">
                  <Ago ms={model.last_updated_timestamp} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** My jobs that failed in the last days, each with the line that says why. */
function Failures(): ReactElement | null {
  const failed = useQuery({ ...jobsQuery({ state: ["failed"], mine: true, byEnd: true, limit: 5 }), refetchInterval: 30_000 });
  const now = useNow(60_000);
  const shown = (failed.data?.jobs ?? []).filter((job) => now - (job.ended_ms ?? 0) < DAYS);
  return shown.length === 0 ? null : (
    <section className="card" aria-label="My failures">
      <div className="card-head">
        <h2>My failures</h2>
        <span className="faint grow">last 3 days</span>
        <Link className="btn quiet small" to="/app/queue" search={{ mine: "1" }}>
          Queue
        </Link>
      </div>
      <table className="plain">
        <tbody>
          {shown.map((job) => (
            <tr key={job.job_id}>
              <td className="clip" style={{ maxWidth: 128 }}>
                <Link to="/app/jobs/$jobId" params={{ jobId: job.job_id }} search={{}}>
                  {jobName(job)}
                </Link>
              </td>
              <td className="clip" style={{ maxWidth: 340 }} title={job.error_line ?? job.sentence ?? ""}>
                {job.error_line === null ? <span className="muted">{job.sentence}</span> : <code className="tone-red">{job.error_line}</code>}
              </td>
              <td className="num muted nowrap">
                <Ago ms={job.ended_ms} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** My jobs that run, with how far they are, and those that wait, with when they may start. */
function MyJobs(): ReactElement | null {
  const going = useQuery({ ...jobsQuery({ state: ["starting", "running"], mine: true, limit: 20 }), refetchInterval: 10_000 });
  const line = useQuery({ ...jobsQuery({ inLine: true, mine: true, limit: 5 }), refetchInterval: ({ state }) => (state.data?.jobs[0]?.eta === null ? 3000 : 15_000) });
  const now = useNow(5000);
  const jobs = [...(going.data?.jobs ?? []), ...(line.data?.jobs ?? [])];
  const hidden = Math.max(0, (line.data?.counts.queued ?? 0) - (line.data?.jobs.length ?? 0));
  return jobs.length === 0 ? null : (
    <section className="card" aria-label="My jobs">
      <div className="card-head">
        <h2>My jobs</h2>
        <span className="faint grow">
          {going.data?.jobs.length ?? 0} running, {line.data?.counts.queued ?? 0} waiting
        </span>
        <Link className="btn quiet small" to="/app/queue" search={{ mine: "1" }}>
          {hidden > 0 ? `${hidden} more` : "Queue"}
        </Link>
      </div>
      <table className="plain">
        <tbody>
          {jobs.map((job) => (
            <tr key={job.job_id}>
              <td className="clip" style={{ maxWidth: 160 }}>
                <Link to="/app/jobs/$jobId" params={{ jobId: job.job_id }} search={{}}>
                  {jobName(job)}
                </Link>
              </td>
              <td>
                <JobBadge job={job} />
              </td>
              <td className="muted nowrap">{asks(job)}</td>
              <td className="muted clip" style={{ maxWidth: 240 }}>
                {whenOf(job, now)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** How far a job is and when it ends, or when it may start. */
function whenOf(job: Job, now: number): string {
  if (job.state === "queued") {
    const words = etaWords(job.eta, now);
    return isStuck(job) ? (job.reason?.sentence.replace(/`/g, "") ?? "on hold") : words === null ? "no start in sight yet" : `starts ${words.about}`;
  }
  const end = endOf(job);
  return [job.step === null ? "" : `step ${grouped(job.step)}`, end === null ? "" : `ends by ${moment(end, now)}`].filter((part) => part !== "").join(", ");
}

/** The GPUs of the whole cluster at a glance. */
function Gpus(): ReactElement | null {
  const cluster = useQuery({ ...clusterQuery(), refetchInterval: 15_000 });
  const totals = cluster.data?.totals;
  return cluster.data === undefined || totals === undefined || totals.gpus === 0 ? null : (
    <section className="card" aria-label="GPUs">
      <div className="card-head">
        <h2 className="grow">GPUs</h2>
        <span className="muted">
          {short(totals.gpus_held)} of {count(totals.gpus, "GPU")} in use
        </span>
      </div>
      <div style={{ paddingTop: 10 }}>
        <GpuStrip cluster={cluster.data} />
      </div>
    </section>
  );
}

/** My leases that hold now or come next. */
function NextLeases(): ReactElement | null {
  const leases = useQuery(myLeasesQuery());
  const now = useNow(30_000);
  const shown = (leases.data ?? []).filter((lease) => lease.ends_ms > now).toSorted((a, b) => a.starts_ms - b.starts_ms).slice(0, 4);
  return shown.length === 0 ? null : (
    <section className="card" aria-label="My leases">
      <div className="card-head">
        <h2 className="grow">My leases</h2>
        <Link className="btn quiet small" to="/app/leases" search={{}}>
          Calendar
        </Link>
      </div>
      <table className="plain">
        <tbody>
          {shown.map((lease) => (
            <tr key={lease.lease_id}>
              <td>
                <Link to="/app/leases" search={{ lease: lease.lease_id }}>
                  {lease.name}
                </Link>
              </td>
              <td className="muted">{count(lease.nodes.length, "node")}</td>
              <td className="num muted nowrap">{lease.starts_ms > now ? `from ${moment(lease.starts_ms, now)}` : `until ${moment(lease.ends_ms, now)}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** What changed since this browser was here last; a visit is over after half an hour. */
function Events(): ReactElement {
  const events = useQuery(eventsQuery({ limit: 200 }));
  const [since] = useState(sinceVisit);
  const told = (events.data ?? []).filter((event) => !/^(artifact\.written|run\.(logged|inputs|updated)|session\.|attempt\.|job\.admitted|experiment\.tagged)/.test(event.kind));
  const fresh = told.filter((event) => event.time_ms > since);
  return (
    <section className="card" aria-label="Since you were here">
      <div className="card-head">
        <h2>{fresh.length > 0 && since > 0 ? "Since you were here" : "Recent events"}</h2>
        <span className="faint grow">{fresh.length > 0 && since > 0 ? count(fresh.length, "event") : ""}</span>
        <Link className="btn quiet small" to="/app/log" search={{}}>
          All
        </Link>
      </div>
      {events.data === undefined ? <Skeleton rows={4} /> : <EventList events={(fresh.length > 0 ? fresh : told).slice(0, 12)} />}
    </section>
  );
}

const VISIT = 30 * 60_000;

/** When the visit before this one ended, by what this browser remembers. */
function sinceVisit(): number {
  const [last, before] = (localStorage.getItem("yard.visit") ?? "0,0").split(",").map(Number);
  const now = Date.now();
  const since = now - (last ?? 0) > VISIT ? (last ?? 0) : (before ?? 0);
  localStorage.setItem("yard.visit", `${now},${since}`);
  return since;
}
