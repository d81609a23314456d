/** A job's life on lanes over one axis of time: waits, attempts with their cause, checkpoints, alerts. Pure. */
import { causeWord, wordState } from "./job-states";
import type { Tone } from "./states";
import type { Bar, Lane, Mark } from "./timeline";

export interface LaneJob {
  job: { state: string; submitted_ms: number; ended_ms: number | null };
  attempts: readonly {
    number: number;
    state: string;
    cause: string | null;
    sentence: string | null;
    exit_code: number | null;
    signal: number | null;
    admitted_ms: number;
    started_ms: number | null;
    ended_ms: number | null;
    resume_step: number | null;
    lost_steps: number | null;
  }[];
  checkpoints: readonly { step: number; attempt: number; created_ms: number }[];
}

interface EventLike {
  kind: string;
  time_ms: number;
  data: Record<string, unknown>;
}

export interface JobBar extends Bar {
  /** what stands in the bar where there is room */
  word: string;
  sign: "cross" | "arrows" | "tick" | "square" | null;
  pattern: "plain" | "wait";
}

export interface JobLane extends Lane {
  bars: JobBar[];
}

const ALERTS: Record<string, { tone: Tone; word: string }> = {
  "job.loss_nan": { tone: "red", word: "loss is not a number" },
  "job.out_of_memory": { tone: "red", word: "out of memory" },
  "job.stalled": { tone: "violet", word: "stalled" },
  "job.recovered": { tone: "green", word: "progress again" },
  "job.preempting": { tone: "amber", word: "asked to make room" },
  "job.rolled_back": { tone: "amber", word: "went back to a checkpoint" },
  "attempt.lost": { tone: "red", word: "attempt lost" },
  "job.blocked": { tone: "amber", word: "blocked" },
};

/** The four lanes of a job. */
export function jobLanes(detail: LaneJob, events: readonly EventLike[], now: number): JobLane[] {
  return [
    { name: "Queued", bars: waits(detail, now), marks: [] },
    { name: "Attempts", bars: detail.attempts.map((attempt) => attemptBar(attempt, now)), marks: [] },
    { name: "Checkpoints", bars: [], marks: detail.checkpoints.map((one): Mark => ({ at: one.created_ms, tone: "green", label: `checkpoint at step ${one.step}, attempt ${one.attempt}` })) },
    { name: "Alerts", bars: [], marks: alerts(events) },
  ];
}

function waits({ job, attempts }: LaneJob, now: number): JobBar[] {
  const bars: JobBar[] = [];
  let since = job.submitted_ms;
  for (const attempt of attempts) {
    bars.push(wait(since, attempt.admitted_ms));
    since = attempt.ended_ms ?? now;
  }
  if (job.state === "queued") {
    bars.push(wait(since, now));
  } else if (attempts.length === 0) {
    bars.push(wait(since, job.ended_ms ?? now));
  }
  return bars.filter((bar) => bar.to > bar.from);
}

const wait = (from: number, to: number): JobBar => ({ from, to, tone: "amber", label: "queued", word: "", sign: null, pattern: "wait" });

const SIGNS: Record<string, JobBar["sign"]> = { failed: "cross", lost: "cross", preempted: "arrows", succeeded: "tick", stopped: "square" };

function attemptBar(attempt: LaneJob["attempts"][number], now: number): JobBar {
  const { tone, word } = wordState(attempt.state);
  const cause = causeWord(attempt);
  const from = attempt.resume_step === null ? "" : `, from step ${attempt.resume_step}`;
  const lost = lostSteps(attempt);
  return {
    from: attempt.admitted_ms,
    to: attempt.ended_ms ?? now,
    tone,
    label: `attempt ${attempt.number} ${word}${cause === "" || cause === word ? "" : `: ${cause}`}${from}${lost === "" ? "" : `, ${lost}`}`,
    word: `${attempt.number}${cause === "" ? "" : ` · ${cause}`}`,
    sign: SIGNS[attempt.state] ?? null,
    pattern: "plain",
  };
}

/** How many steps an attempt did in vain, in words; nothing where there were none. */
export function lostSteps(attempt: { lost_steps: number | null }): string {
  const count = attempt.lost_steps ?? 0;
  return count === 0 ? "" : `${count} ${count === 1 ? "step" : "steps"} lost`;
}

function alerts(events: readonly EventLike[]): Mark[] {
  return events.flatMap((event): Mark[] => {
    const alert = ALERTS[event.kind];
    const sentence = event.data.sentence;
    return alert === undefined ? [] : [{ at: event.time_ms, tone: alert.tone, label: typeof sentence === "string" && sentence !== "" ? sentence : alert.word }];
  });
}

/** The ends of the lanes: from submission to the end or now, with a little room. */
export function laneEnds(detail: LaneJob, now: number): [number, number] {
  const { job, attempts } = detail;
  const over = job.state === "succeeded" || job.state === "failed" || job.state === "stopped";
  const last = Math.max(job.submitted_ms, ...attempts.map((one) => one.ended_ms ?? now));
  const to = over ? Math.max(job.ended_ms ?? last, last) : now;
  const room = Math.max(1000, (to - job.submitted_ms) * 0.015);
  return [job.submitted_ms - room, to + room];
}

/** The metric to draw under the lanes: a loss where there is one, else the first. */
export function leadMetric(names: readonly string[]): string | null {
  const own = names.filter((name) => !name.startsWith("system/"));
  return own.find((name) => /^(train[/_.]?)?loss$/i.test(name)) ?? own.find((name) => /loss/i.test(name)) ?? own[0] ?? null;
}

/** When a running attempt is done at its present pace; null where that cannot be told. */
export function finishAt(attempt: { started_ms: number | null; resume_step: number | null }, step: number, total: number | null, now: number): number | null {
  const done = step - (attempt.resume_step ?? 0);
  if (attempt.started_ms === null || total === null || total <= step || done < 3) {
    return null;
  }
  return now + ((now - attempt.started_ms) / done) * (total - step);
}
