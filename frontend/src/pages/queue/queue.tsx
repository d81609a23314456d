/** The queue: what runs, what waits and why, in order of start, on one thin axis of time. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import { clusterQuery } from "../../api/cluster";
import { jobsQuery, lineQuery, queuesQuery, type JobList } from "../../api/jobs";
import { GpuStrip } from "../../features/gpu-map/gpu-strip";
import { usePlainKeys } from "../../features/shell/keys";
import { count, short } from "../../lib/format";
import { jobLine } from "../../lib/job-lines";
import { jobName } from "../../lib/job-states";
import { axisOf, endOf, merged, sectionsOf } from "../../lib/queue-axis";
import { Icon } from "../../ui/icon";
import { ErrorCard, PageHead, Segments, Skeleton, useNow, YardLine } from "../../ui/parts";
import { NoJobs } from "./no-jobs";
import { QueueRows, type Section } from "./rows";
import "./queue.css";

/** Waiting jobs that are read at each refresh, and as many as one answer holds. */
const LINE = 200;
const MOST = 20_000;
const ENDED = 6;

/** Whose jobs are shown. */
type Whose = "all" | "team" | "mine";
const WHOSE: readonly (readonly [Whose, string])[] = [
  ["all", "All teams"],
  ["team", "My team"],
  ["mine", "Mine"],
];

function useJobs(queue: string | undefined, whose: Whose, whole: boolean, ended: number) {
  const mine = whose === "mine";
  const all = whose === "all";
  const kept = { placeholderData: (before: JobList | undefined) => before };
  const live = { ...kept, refetchInterval: 10_000 };
  const going = useQuery({ ...jobsQuery({ state: ["starting", "running"], queue, mine, all, limit: 1000 }), ...live });
  const line = useQuery({
    ...jobsQuery({ inLine: true, stuck: false, queue, mine, all, limit: LINE }),
    ...kept,
    // Forecasts are made beside the list: those that were not ready come with the next answer.
    refetchInterval: ({ state }) => (state.data?.jobs[0]?.eta === null ? 2000 : 10_000),
  });
  const stuck = useQuery({ ...jobsQuery({ inLine: true, stuck: true, queue, mine, all, limit: LINE }), ...live });
  const rest = useQuery({ ...lineQuery({ stuck: false, queue, mine, all, limit: MOST }, whole ? line.data?.next : null), ...kept });
  const over = useQuery({ ...jobsQuery({ state: ["succeeded", "failed", "stopped"], byEnd: true, queue, mine, limit: ended }), ...kept });
  const jobs = useMemo(() => {
    const lists = [going.data, line.data, stuck.data];
    // The rest of the line is read seldom: what the fresh lists say counts more.
    const further = whole && typeof line.data?.next === "string" ? (rest.data?.jobs ?? []) : [];
    return lists.some((list) => list === undefined) ? undefined : merged([further, ...lists.map((list) => list?.jobs ?? [])]);
  }, [going.data, line.data, stuck.data, rest.data, whole]);
  const error = going.error ?? line.error ?? stuck.error;
  const retry = (): void => void [going, line, stuck].map((query) => query.refetch());
  return { jobs, error, retry, over, queued: line.data?.counts.queued ?? 0, hasMore: typeof (whole ? rest.data : line.data)?.next === "string" };
}

export function QueuePage(): ReactElement {
  const search = useSearch({ from: "/app/queue" });
  const navigate = useNavigate();
  const now = useNow(1000);
  const whose = whoseOf(search);
  const ended = search.ended === "all" ? 200 : ENDED;
  const { jobs, error, retry, over, queued, hasMore } = useJobs(search.queue, whose, search.line === "all", ended);
  const sections = useMemo(() => sectionsOf(jobs ?? []), [jobs]);
  const forecasts = useMemo(() => new Map(sections.waiting.flatMap((job) => (job.eta === null ? [] : [[job.job_id, job.eta] as const]))), [sections]);
  const names = useMemo(() => {
    const known = new Map<string, string>();
    for (const job of [...(jobs ?? []), ...(over.data?.jobs ?? [])]) {
      known.set(job.job_id, jobName(job));
      if (job.array_id !== "") {
        known.set(job.array_id, job.name);
      }
    }
    return (id: string): string => known.get(id) ?? id;
  }, [jobs, over.data]);
  const set = (change: Record<string, string | undefined>): void =>
    void navigate({ to: "/app/queue", search: Object.fromEntries(Object.entries({ ...search, ...change }).filter((entry): entry is [string, string] => entry[1] !== undefined)), replace: true, resetScroll: false });
  const axis = useMemo(
    () => axisOf(now, [...sections.going.map(endOf), ...[...forecasts.values()].map((eta) => eta.latest_ms ?? eta.start_ms), ...sections.waiting.map((job) => job.reason?.until_ms)]),
    [now, sections, forecasts],
  );
  const shown: Section[] = [
    { key: "stuck", title: "Can never start as requested", jobs: sections.stuck },
    { key: "going", title: "Running", jobs: sections.going },
    { key: "waiting", title: "Waiting, in order of start", jobs: sections.waiting },
    { key: "ended", title: "Ended, latest first", jobs: over.data?.jobs ?? [] },
  ];
  useWalk(shown, search.job, (job) => set({ job }));
  const waiting = Math.max(queued, sections.waiting.length + sections.stuck.length);
  const none = jobs !== undefined && over.data !== undefined && shown.every((section) => section.jobs.length === 0);
  const filtered = whose === "mine" || search.queue !== undefined;
  return (
    <>
      <Head search={search} set={set} running={sections.going.length} waiting={waiting} loaded={jobs !== undefined} />
      <Squares />
      {error !== null && (
        <div className="page-body">
          <ErrorCard title="The queue could not be read" error={error} retry={retry} />
        </div>
      )}
      {jobs === undefined && error === null && <Skeleton rows={10} height={28} />}
      {none && !filtered && <NoJobs />}
      {none && filtered && <p className="faint" style={{ padding: 16 }}>No job matches. {whose === "mine" ? "None of them is yours." : ""}</p>}
      {jobs !== undefined && !none && (
        <>
          <QueueRows
            sections={shown}
            axis={axis}
            forecasts={forecasts}
            open={search.job}
            onOpen={(job) => set({ job })}
            nameOf={names}
            waiting={waiting}
            moreWaiting={hasMore ? waiting - sections.waiting.length - sections.stuck.length : 0}
            onMoreWaiting={() => set({ line: "all" })}
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

/** The GPUs of the cluster, once they are known. */
function Squares(): ReactElement | null {
  const { data } = useQuery({ ...clusterQuery(), refetchInterval: 10_000 });
  return data === undefined ? null : <GpuStrip cluster={data} />;
}

/** Whose jobs an address asks for. */
function whoseOf(search: Record<string, string>): Whose {
  return search.mine === "1" ? "mine" : search.whose === "team" ? "team" : "all";
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
      <Segments label="Whose jobs" value={whoseOf(search)} options={WHOSE} onChange={(next) => set({ mine: next === "mine" ? "1" : undefined, whose: next === "team" ? "team" : undefined })} />
      <Link className="btn" to="/app/submit" search={{ kind: "notebook" }}>
        Start a notebook
      </Link>
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
    const jobs = sections.flatMap((section) => section.jobs).filter((job) => job.is_foreign !== true);
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
