/** Jobs: lists, one job, what can be done to them, logs. Owns the keys of what is cached of them; knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { binary, currentTeam, json } from "./client";
import type { components } from "./types.gen";

type Schemas = components["schemas"];
export type Job = Schemas["JobView"];
export type JobList = Schemas["JobList"];
export type Reason = Schemas["ReasonView"];
export type Eta = Schemas["EtaView"];
export type Answer = Schemas["SubmitReply"]["answer"];
export type Smaller = Schemas["SmallerRequestView"];
export type Checkpoint = Schemas["CheckpointView"];
export type SubmitReply = Schemas["SubmitReply"];
export type Queue = Schemas["QueueView"];
export type Change = Partial<Schemas["Requeue"]>;
export type Wish = Partial<Schemas["JobRequest"]> & { command: string[] };
/** Free objects have no shape in the schema; these are read as they come. */
export type Attempt = Omit<Schemas["AttemptView"], "environment"> & { environment: Record<string, unknown> };
export type Claim = Schemas["ClaimView"];
export type Trial = Omit<Schemas["TrialView"], "params"> & { params: Record<string, unknown> };
export type JobDetail = Omit<Schemas["JobDetail"], "attempts" | "spec" | "trials"> & { attempts: Attempt[]; spec: Record<string, unknown>; trials?: Trial[] };

export interface JobsWish {
  state?: readonly string[];
  queue?: string | undefined;
  mine?: boolean | undefined;
  /** of all teams, for admins */
  all?: boolean | undefined;
  since?: number | undefined;
  limit?: number;
  /** the cursor of the page before */
  before?: string | undefined;
  /** waiting jobs in order of start, with the forecasts that are known */
  inLine?: boolean;
  /** what ended, the last to end first */
  byEnd?: boolean;
  /** of those in line, only the ones that start when someone acts, or only the others */
  stuck?: boolean;
}

const load = (wish: JobsWish, signal: AbortSignal): Promise<JobList> =>
  json<JobList>("/api/v1/jobs", {
    query: { state: wish.state ?? [], queue: wish.queue, mine: wish.mine === true ? 1 : undefined, all: wish.all === true ? 1 : undefined, since: wish.since, limit: wish.limit ?? 100, before: wish.before, ...(wish.inLine === true ? { order: "position", eta: 1 } : wish.byEnd === true ? { order: "ended" } : {}), stuck: wish.stuck === undefined ? undefined : Number(wish.stuck) },
    signal,
  });

const path = (job: string): string => `/api/v1/jobs/${encodeURIComponent(job)}`;

/** A list of jobs, the newest first. */
export const jobsQuery = (wish: JobsWish) =>
  queryOptions({
    queryKey: ["jobs", currentTeam(), wish] as const,
    queryFn: ({ signal }) => load(wish, signal),
  });

/** The line behind its head. It may be long, so it is kept apart: no event asks for all of it again. */
export const lineQuery = (wish: JobsWish, before: string | null | undefined) =>
  queryOptions({
    queryKey: ["line", currentTeam(), wish] as const,
    queryFn: ({ signal }) => load({ ...wish, inLine: true, before: before ?? undefined }, signal),
    enabled: typeof before === "string",
    staleTime: 60_000,
    refetchInterval: 60_000,
  });

/** Everything about one job; its forecast with it. */
export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: ["job", currentTeam(), id] as const,
    queryFn: ({ signal }) => json<JobDetail>(path(id), { signal }),
  });

/** The attempts of a job as they were at a state: of what is over they change no more. */
export const attemptsQuery = (job: Pick<Job, "job_id" | "attempt" | "state">) =>
  queryOptions({
    queryKey: ["attempts", currentTeam(), job.job_id, job.attempt, job.state] as const,
    queryFn: ({ signal }) => json<JobDetail>(path(job.job_id), { signal }),
    staleTime: Infinity,
  });

/** The queues with their rules. */
export const queuesQuery = () =>
  queryOptions({
    queryKey: ["queues", currentTeam()] as const,
    queryFn: async ({ signal }) => (await json<Schemas["QueueList"]>("/api/v1/queues", { signal })).queues,
  });

/** The answer to a wish, before anything is queued. */
export const answerQuery = (wish: Wish | null) =>
  queryOptions({
    queryKey: ["answer", currentTeam(), wish] as const,
    queryFn: async ({ signal }) =>
      (await json<SubmitReply>("/api/v1/jobs", { method: "POST", body: { ...wish, dry_run: true }, signal })).answer,
    enabled: wish !== null,
    retry: false,
    staleTime: 5000,
  });

export const submitJob = (wish: Wish): Promise<SubmitReply> => json("/api/v1/jobs", { method: "POST", body: wish });

const act = (verb: string) => (job: string, body: unknown = {}): Promise<Schemas["JobsReply"]> =>
  json(`${path(job)}/${verb}`, { method: "POST", body });

export const stopJob = act("stop");
export const holdJob = act("hold");
export const releaseJob = act("release");
export const requeueJob = (job: string, change: Change = {}): Promise<Schemas["JobsReply"]> => act("requeue")(job, change);

/** An address that opens the app of a job, once. */
export const openApp = (job: string): Promise<Schemas["AppReply"]> => json(`${path(job)}/app`, { method: "POST", body: {} });

/** Whether the app of a running job can be reached, and when it will be stopped for want of use. */
export const appQuery = (job: Pick<Job, "job_id" | "state" | "interactive">) =>
  queryOptions({
    queryKey: ["app", currentTeam(), job.job_id] as const,
    queryFn: ({ signal }) => json<Schemas["AppState"]>(`${path(job.job_id)}/app`, { signal }),
    enabled: job.state === "running" && (job.interactive ?? "") !== "",
    refetchInterval: 30_000,
    retry: false,
  });

/** Bytes of a log from an offset on, as they were printed. */
export function readLog(job: string, where: { attempt: number; rank: number; offset: number; limit?: number }): Promise<ArrayBuffer> {
  return binary(`${path(job)}/logs`, { limit: 512 * 1024, ...where });
}

/** Upload a working folder as a zip archive; its digest names it in a submission. */
export const sendPackage = (archive: Blob): Promise<Schemas["PackageReply"]> => json("/api/v1/packages", { method: "POST", query: { format: "zip" }, raw: archive });
