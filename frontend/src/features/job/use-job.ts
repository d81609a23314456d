/** A job with its events and the names of jobs it speaks of, kept fresh while it lives. */
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";

import { eventsQuery, type YardEvent } from "../../api/events";
import { jobQuery, jobsQuery, type JobDetail } from "../../api/jobs";
import { isOver, jobName } from "../../lib/job-states";

const NONE: YardEvent[] = [];

export function useJob(id: string): { detail: JobDetail | undefined; error: Error | null; retry: () => void; events: YardEvent[] } {
  const job = useQuery({
    ...jobQuery(id),
    refetchInterval: ({ state }) => (state.data !== undefined && isOver(state.data.job) ? false : 5000),
  });
  // An address may carry the job's name; events go by its id.
  const known = job.data?.job.job_id ?? id;
  const events = useQuery({ ...eventsQuery({ limit: 500, subject: "job", subject_id: known }), enabled: job.data !== undefined });
  return { detail: job.data, error: job.error, retry: () => void job.refetch(), events: events.data ?? NONE };
}

/** Jobs by the names people know; ids of others stay ids. */
export function useJobNames(enabled = true): (id: string) => string {
  const live = useQuery({ ...jobsQuery({ state: ["queued", "starting", "running"], limit: 500 }), enabled, staleTime: 10_000 });
  const names = useMemo(() => new Map((live.data?.jobs ?? []).map((job) => [job.job_id, jobName(job)])), [live.data]);
  return useCallback((id: string) => names.get(id) ?? id, [names]);
}
