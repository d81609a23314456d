/** Reasons of waiting: their tiers in words, their sentences in parts, and what can be done about them. Pure. */
import type { IconName } from "../ui/icon";
import { count, duration } from "./format";
import type { Tone } from "./states";

export interface ReasonLike {
  code: string;
  tier: string;
  sentence: string;
  remedy: string;
  holders: readonly string[];
}

export interface Tier {
  word: string;
  icon: IconName;
  tone: Tone;
  /** whether waiting alone will never help */
  stuck: boolean;
}

const TIERS: Record<string, Tier> = {
  misconfigured: { word: "Misconfigured", icon: "warn", tone: "red", stuck: true },
  infeasible: { word: "Cannot fit", icon: "warn", tone: "red", stuck: true },
  over_quota: { word: "Over quota", icon: "square", tone: "amber", stuck: false },
  lease_conflict: { word: "Leased to others", icon: "clock", tone: "amber", stuck: false },
  dependency: { word: "Depends", icon: "link", tone: "amber", stuck: false },
  priority: { word: "Others first", icon: "arrows", tone: "amber", stuck: false },
  capacity: { word: "No room yet", icon: "clock", tone: "amber", stuck: false },
  unhealthy: { word: "Nodes out of service", icon: "warn", tone: "violet", stuck: false },
  engine: { word: "The engine waits", icon: "dots", tone: "grey", stuck: false },
  evaluating: { word: "Being looked at", icon: "dots", tone: "grey", stuck: false },
};

/** A tier as word, icon and tone. */
export function tierOf(tier: string): Tier {
  return TIERS[tier] ?? { word: tier.replace(/_/g, " "), icon: "clock", tone: "grey", stuck: false };
}

const NEVER = new Set(["dependency_never", "larger_than_quota"]);

/** A reason as word, icon and tone: what no wait will mend is told apart from what one will. */
export function lookOf(reason: Pick<ReasonLike, "code" | "tier">): Tier {
  const tier = tierOf(reason.tier);
  if (reason.code === "larger_than_quota") {
    return { word: "Larger than its quota", icon: "warn", tone: "red", stuck: true };
  }
  return reason.code === "dependency_never" ? { ...tier, word: "Dependency failed", icon: "warn", tone: "red", stuck: true } : tier;
}

/** A number of a reason with its unit: 4 GPUs, 2 nodes, 13m. */
export function amountOf(value: number, unit: string): string {
  if (unit === "seconds") {
    return duration(value * 1000);
  }
  return count(value, unit === "nodes" ? "node" : unit === "jobs" ? "job" : "GPU");
}

/** Whether a job starts only when someone does something. */
export function isStuck(job: { held: boolean; reason: Pick<ReasonLike, "code" | "tier"> | null }): boolean {
  return job.held || (job.reason !== null && (tierOf(job.reason.tier).stuck || NEVER.has(job.reason.code)));
}

export type Part = { kind: "text" | "code"; text: string } | { kind: "job"; id: string } | { kind: "time"; ms: number };

const MARKS = /`([^`]+)`|(\d{4}-\d\d-\d\d \d\d:\d\d) UTC/g;
const JOB_ID = /^j[0-9a-z]{6,}(-\d+)?$/;

/** A sentence in parts: text, words in code, jobs to link, and times to show in the reader's own zone. */
export function partsOf(sentence: string): Part[] {
  const parts: Part[] = [];
  let at = 0;
  for (const match of sentence.matchAll(MARKS)) {
    if (match.index > at) {
      parts.push({ kind: "text", text: sentence.slice(at, match.index) });
    }
    const [whole, code, time] = match;
    if (code !== undefined) {
      parts.push(JOB_ID.test(code) ? { kind: "job", id: code } : { kind: "code", text: code });
    } else {
      parts.push({ kind: "time", ms: Date.parse(`${(time ?? "").replace(" ", "T")}:00Z`) });
    }
    at = match.index + whole.length;
  }
  if (at < sentence.length) {
    parts.push({ kind: "text", text: sentence.slice(at) });
  }
  return parts;
}

export interface Lesser {
  gpus: number;
  nodes: number;
  time_limit_seconds: number | null;
  sentence: string;
}

export type Remedy =
  | { act: "release" }
  | { act: "change"; word: string; change: Record<string, number | string | boolean> }
  | { act: "edit"; word: string }
  | { act: "copy"; word: string }
  | { act: "stop"; word: string }
  | { act: "nodes"; word: string }
  | { act: "look"; word: string; job: string };

interface Waiting {
  priority: string;
  gpus: number;
  nodes: number;
  time_limit_seconds: number | null;
}

const RAISE: Record<string, string> = { scavenge: "low", low: "normal", normal: "high" };
const NEEDS_TIME = new Set(["runs_into_lease", "behind_reservation", "wall_time_missing", "wall_time_over_limit"]);
const NEEDS_QUEUE = new Set(["unknown_queue", "queue_closed", "queue_quota", "queue_jobs", "behind_head"]);
const NEEDS_COPY = new Set(["bad_request", "unknown_team", "unknown_gpu_type", "unknown_label", "unknown_lease", "lease_over", "unknown_dependency", "not_before"]);
const ASKS_LESS = new Set(["too_large", "no_free_gpus", "fragmented", "larger_than_quota", "team_quota", "gpus_over_limit", "nodes_over_limit", "borrow_limit", "user_gpus", "no_free_cpu_or_memory"]);

/** One to three things that would help, the surest first. */
export function remediesFor(job: Waiting, reason: ReasonLike, lesser: readonly Lesser[], nameOf: (id: string) => string): Remedy[] {
  const found: Remedy[] = [];
  const { code } = reason;
  if (code === "held") {
    return [{ act: "release" }];
  }
  const small = lesser.find((one) => one.gpus * one.nodes !== job.gpus || one.nodes !== job.nodes || one.time_limit_seconds !== job.time_limit_seconds);
  if (small !== undefined) {
    found.push({ act: "change", word: small.sentence.replace(/\.$/, ""), change: changeTo(job, small) });
  } else if (ASKS_LESS.has(code) && (job.gpus > 1 || job.nodes > 1)) {
    found.push({ act: "edit", word: "Ask for less…" });
  }
  if (NEEDS_TIME.has(code)) {
    found.push({ act: "edit", word: "Set a time limit…" });
  }
  if (NEEDS_QUEUE.has(code)) {
    found.push({ act: "edit", word: "Use another queue…" });
  }
  if (NEEDS_COPY.has(code)) {
    found.push({ act: "copy", word: "Submit a corrected copy" });
  }
  if (code === "dependency_never") {
    found.push({ act: "copy", word: "Submit it without the dependency" }, { act: "stop", word: "Stop it" });
  }
  if (code === "avoids_nodes") {
    found.push({ act: "change", word: "Let it run anywhere again", change: { anywhere: true } });
  }
  if (code === "nodes_unhealthy") {
    found.push({ act: "nodes", word: "See the nodes" });
  }
  const raised = RAISE[job.priority];
  if ((reason.tier === "priority" || code === "no_free_gpus") && raised !== undefined) {
    found.push({ act: "change", word: `Raise its priority to ${raised}`, change: { priority: raised } });
  }
  const holder = reason.holders[0];
  if (holder !== undefined && found.length < 3) {
    found.push({ act: "look", word: `Look at ${nameOf(holder)}`, job: holder });
  }
  return found.slice(0, 3);
}

function changeTo(job: Waiting, small: Lesser): Record<string, number | string | boolean> {
  const change: Record<string, number> = {};
  if (small.gpus !== job.gpus / Math.max(1, job.nodes)) {
    change.gpus = small.gpus;
  }
  if (small.nodes !== job.nodes) {
    change.nodes = small.nodes;
  }
  if (small.time_limit_seconds !== null && small.time_limit_seconds !== job.time_limit_seconds) {
    change.time_limit_seconds = small.time_limit_seconds;
  }
  return change;
}
