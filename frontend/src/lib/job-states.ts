/** The states of jobs and attempts in words, each with its icon and tone. Pure. */
import { stateOf, type State } from "./states";

export interface JobLike {
  state: string;
  stopping?: boolean;
  held?: boolean;
  stalled?: boolean;
}

const STATES: Record<string, State> = {
  queued: stateOf("SCHEDULED"),
  starting: stateOf("STARTING"),
  running: stateOf("RUNNING"),
  stopping: { word: "stopping", icon: "dots", tone: "grey" },
  succeeded: stateOf("FINISHED"),
  failed: stateOf("FAILED"),
  stopped: stateOf("KILLED"),
  preempted: stateOf("PREEMPTED"),
  lost: { word: "lost", icon: "cross", tone: "red" },
  ready: { word: "ready", icon: "tick", tone: "green" },
  drained: { word: "drained", icon: "pause", tone: "amber" },
  quarantined: { word: "quarantined", icon: "pause", tone: "red" },
  down: { word: "down", icon: "cross", tone: "red" },
};

/** The state of an attempt, a node, or a job by its plain word. */
export function wordState(word: string): State {
  return STATES[word] ?? { word, icon: "square", tone: "grey" };
}

/** The state of a job, with what goes on within it. */
export function jobState(job: JobLike): State {
  if (job.stopping === true && isGoing(job)) {
    return wordState("stopping");
  }
  if (job.state === "running" && job.stalled === true) {
    return stateOf("STALLED");
  }
  if (job.state === "queued" && job.held === true) {
    return { word: "held", icon: "pause", tone: "amber" };
  }
  return wordState(job.state);
}

/** Whether a job holds its nodes now. */
export function isGoing(job: Pick<JobLike, "state">): boolean {
  return job.state === "starting" || job.state === "running";
}

/** Whether nothing more happens to a job by itself. */
export function isOver(job: Pick<JobLike, "state">): boolean {
  return job.state === "succeeded" || job.state === "failed" || job.state === "stopped";
}

const CAUSES: Record<string, string> = {
  exit_code: "exit code",
  signal: "killed by a signal",
  out_of_memory: "out of memory",
  node_lost: "node lost",
  node_unfit: "node not fit",
  preempted: "preempted",
  time_limit: "time limit",
  stopped: "stopped",
  engine: "engine",
  setup: "setup failed",
  requeued: "queued again",
};

/** Why an attempt ended, in a word or two. */
export function causeWord(attempt: { cause: string | null; exit_code?: number | null; signal?: number | null }): string {
  const { cause } = attempt;
  if (cause === null) {
    return "";
  }
  if (cause === "exit_code" && attempt.exit_code !== null && attempt.exit_code !== undefined) {
    return `exit code ${attempt.exit_code}`;
  }
  if (cause === "signal" && attempt.signal !== null && attempt.signal !== undefined) {
    return `signal ${attempt.signal}`;
  }
  return CAUSES[cause] ?? cause.replace(/_/g, " ");
}

/** What a job asks for: `2 GPUs`, `2 x 4 H100`, `0.5 GPU`, `4 CPUs`. */
export function asks(job: { gpus: number; nodes: number; gpu_types?: readonly string[]; cpus?: number }): string {
  const types = (job.gpu_types ?? []).join(" or ");
  if (job.gpus === 0) {
    const cpus = job.cpus ?? 0;
    const each = cpus > 0 ? `${cpus} CPU${cpus === 1 ? "" : "s"}` : "no GPU";
    return job.nodes > 1 ? `${job.nodes} nodes, ${each}` : each;
  }
  const each = job.gpus / Math.max(1, job.nodes);
  const what = types === "" ? `GPU${each > 1 ? "s" : ""}` : types;
  return job.nodes > 1 ? `${job.nodes} × ${round(each)} ${what}` : `${round(each)} ${what}`;
}

function round(value: number): string {
  return String(Math.round(value * 1000) / 1000);
}

/** A job's name with its place in an array. */
export function jobName(job: { name: string; array_index: number | null }): string {
  return job.array_index === null ? job.name : `${job.name}[${job.array_index}]`;
}
