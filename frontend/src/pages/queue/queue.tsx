/** The queue: what runs, what waits and why, in order of start, on one thin axis of time. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import { clusterQuery } from "../../api/cluster";
import { forecastQuery, jobsQuery, MOST_WAITING, queuesQuery, type Eta, type Job } from "../../api/jobs";
import { usePlainKeys } from "../../features/shell/keys";
import { count, short } from "../../lib/format";
import { jobLine } from "../../lib/job-lines";
import { jobName } from "../../lib/job-states";
import { axisOf, endOf, sectionsOf } from "../../lib/queue-axis";
import { Icon } from "../../ui/icon";
import { ErrorCard, PageHead, Skeleton, useNow, YardLine } from "../../ui/parts";
import { NoJobs } from "./no-jobs";
import { QueueRows, type Section } from "./rows";
import "./queue.css";

/** Waiting jobs whose start is foreseen; the rest tell their reason alone. */
const FORESEEN = 24;
const ENDED = 6;

function useJobs(queue: string | undefined, mine: boolean, ended: number) {
  const live = useQuery({ ...jobsQuery({ state: ["queued", "starting", "running"], queue, mine, limit: MOST_WAITING }), refetchInterval: 10_000, placeholderData: (before) => before });
  const over = useQuery({ ...jobsQuery({ state: ["succeeded", "failed", "stopped"], queue, mine, limit: ended }), placeholderData: (before) => before });
  return { live, over };
}

function useForecasts(waiting: readonly Job[]): Map<string, Eta> {
  return useQueries({
    queries: waiting.slice(0, FORESEEN).map((job) => ({ ...forecastQuery(job.job_id), placeholderData: (before: unknown) => before as never })),
    combine: (answers) => {
      const found = new Map<string, Eta>();
      for (const { data } of answers) {
        if (data !== undefined && data.eta !== null) {
          found.set(data.job_id, data.eta);
        }
      }
      return found;
    },
  });
}

export function QueuePage(): ReactElement {
  const search = useSearch({ from: "/app/queue" });
  const navigate = useNavigate();
  const now = useNow(1000);
  const mine = search.mine === "1";
  const ended = search.ended === "all" ? 200 : ENDED;
  const { live, over } = useJobs(search.queue, mine, ended);
  const sections = useMemo(() => sectionsOf(live.data?.jobs ?? []), [live.data]);
  const forecasts = useForecasts(sections.waiting);
  const names = useMemo(() => {
    const known = new Map<string, string>();
    for (const job of [...(live.data?.jobs ?? []), ...(over.data?.jobs ?? [])]) {
      known.set(job.job_id, jobName(job));
      if (job.array_id !== "") {
        known.set(job.array_id, job.name);
      }
    }
    return (id: string): string => known.get(id) ?? id;
  }, [live.data, over.data]);
  const set = (change: Record<string, string | undefined>): void =>
    void navigate({ to: "/app/queue", search: Object.fromEntries(Object.entries({ ...search, ...change }).filter((entry): entry is [string, string] => entry[1] !== undefined)), replace: true, resetScroll: false });
  const axis = useMemo(
    () => axisOf(now, [...sections.going.map(endOf), ...[...forecasts.values()].map((eta) => eta.latest_ms ?? eta.start_ms), ...sections.waiting.map((job) => job.reason?.until_ms)]),
    [now, sections, forecasts],
  );
  const shown: Section[] = [
    { key: "going", title: "Running", jobs: sections.going },
    { key: "waiting", title: "Waiting, in order of start", jobs: sections.waiting },
    { key: "stuck", title: "Cannot start as it is", jobs: sections.stuck },
    { key: "ended", title: "Ended lately", jobs: over.data?.jobs ?? [] },
  ];
  useWalk(shown, search.job, (job) => set({ job }));
  const none = live.data !== undefined && over.data !== undefined && shown.every((section) => section.jobs.length === 0);
  const filtered = mine || search.queue !== undefined;
  return (
    <>
      <Head search={search} set={set} running={sections.going.length} waiting={sections.waiting.length + sections.stuck.length} loaded={live.data !== undefined} />
      {live.error !== null && (
        <div className="page-body">
          <ErrorCard title="The queue could not be read" error={live.error} retry={() => void live.refetch()} />
        </div>
      )}
      {live.data === undefined && live.error === null && <Skeleton rows={10} height={28} />}
      {none && !filtered && <NoJobs />}
      {none && filtered && <p className="faint" style={{ padding: 16 }}>No job matches. {mine ? "None of them is yours." : ""}</p>}
      {live.data !== undefined && !none && (
        <>
          <QueueRows
            sections={shown}
            axis={axis}
            forecasts={forecasts}
            open={search.job}
            onOpen={(job) => set({ job })}
            nameOf={names}
            waiting={sections.waiting.length + sections.stuck.length}
            moreEnded={over.data?.next !== null && search.ended !== "all"}
            onMoreEnded={() => set({ ended: "all" })}
          />
          <div style={{ padding: "8px 16px 24px" }}>
            <YardLine line={jobLine.ps()} />
          </div>
        </>
      )}
    </>
  );
}

interface HeadProps {
  search: Record<string, string>;
  set: (change: Record<string, string | undefined>) => void;
  running: number;
  waiting: number;
  loaded: boolean;
}

function Head({ search, set, running, waiting, loaded }: HeadProps): ReactElement {
  const cluster = useQuery({ ...clusterQuery(), refetchInterval: 10_000 });
  const queues = useQuery(queuesQuery());
  const totals = cluster.data?.totals;
  const mine = search.mine === "1";
  return (
    <PageHead
      title="Queue"
      facts={
        loaded && (
          <>
            <span className="state tone-blue">
              <Icon name="ring" />
              {running} running
            </span>
            <span className="state tone-amber">
              <Icon name="clock" />
              {waiting} waiting
            </span>
            {totals !== undefined && (
              <Link to="/app/nodes" search={{}} className="muted">
                {short(totals.gpus_held)} of {count(totals.gpus, "GPU")} held
              </Link>
            )}
          </>
        )
      }
    >
      {(queues.data?.length ?? 0) > 1 && (
        <select className="field" aria-label="Queue" value={search.queue ?? ""} onChange={(event) => set({ queue: event.target.value === "" ? undefined : event.target.value })}>
          <option value="">All queues</option>
          {queues.data?.map((one) => (
            <option key={one.name} value={one.name}>
              {one.name} · {one.running} running, {one.queued} waiting
            </option>
          ))}
        </select>
      )}
      <button type="button" className="btn" aria-pressed={mine} onClick={() => set({ mine: mine ? undefined : "1" })}>
        <Icon name="user" />
        Mine
      </button>
      <Link className="btn primary" to="/app/submit" search={{}}>
        <Icon name="plus" />
        Submit a job
      </Link>
    </PageHead>
  );
}

/** Walk the rows with j and k, open the job with Enter. */
function useWalk(sections: readonly Section[], open: string | undefined, onOpen: (job: string | undefined) => void): void {
  const navigate = useNavigate();
  usePlainKeys((key, event) => {
    const jobs = sections.flatMap((section) => section.jobs);
    const at = jobs.findIndex((job) => job.job_id === open);
    if (key === "j" || key === "k") {
      const next = jobs[Math.min(jobs.length - 1, Math.max(0, at + (key === "j" ? 1 : at < 0 ? 1 : -1)))];
      onOpen(next?.job_id);
      return true;
    }
    if (key === "Escape" && open !== undefined) {
      onOpen(undefined);
      return true;
    }
    if (key === "Enter" && at >= 0 && (event.target === document.body || (event.target as HTMLElement).id === "page")) {
      void navigate({ to: "/app/jobs/$jobId", params: { jobId: jobs[at]?.job_id ?? "" }, search: {} });
      return true;
    }
    return false;
  });
}
