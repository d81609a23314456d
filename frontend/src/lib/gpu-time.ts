/** GPUs held over time, by team, from the jobs that held them. Pure. */
import { isGoing } from "./job-states";

export interface HeldSpan {
  team: string;
  gpus: number;
  from: number;
  to: number;
}

interface HeldJob {
  job_id: string;
  state: string;
  team: string;
  gpus: number;
  attempt: number;
  started_ms: number | null;
  ended_ms: number | null;
}

/** When a job held its GPUs: each of its attempts where those are known, else from start to end. */
export function spansOf(job: HeldJob, attempts: readonly { admitted_ms: number; ended_ms: number | null }[] | undefined, now: number): HeldSpan[] {
  const { team, gpus } = job;
  if (gpus === 0) {
    return [];
  }
  if (attempts !== undefined) {
    return attempts.map((one) => ({ team, gpus, from: one.admitted_ms, to: one.ended_ms ?? now }));
  }
  const to = job.ended_ms ?? (isGoing(job) ? now : null);
  return job.started_ms === null || to === null ? [] : [{ team, gpus, from: job.started_ms, to }];
}

export interface HeldBin {
  at: number;
  /** GPUs on average over the bin, in the order of teams */
  by: number[];
}

export interface Held {
  teams: string[];
  bins: HeldBin[];
  /** GPU-hours over all bins, in the order of teams */
  hours: number[];
}

/** Spread what was held over bins of time: how many GPUs each team held on average in each. */
export function heldOver(spans: readonly HeldSpan[], from: number, to: number, count: number): Held {
  const teams = [...new Set(spans.map((span) => span.team))].sort();
  const width = (to - from) / count;
  const bins: HeldBin[] = Array.from({ length: count }, (_, at) => ({ at: from + at * width, by: teams.map(() => 0) }));
  const hours = teams.map(() => 0);
  for (const span of spans) {
    const team = teams.indexOf(span.team);
    for (let at = Math.max(0, Math.floor((span.from - from) / width)); at < count; at += 1) {
      const left = from + at * width;
      const share = Math.min(span.to, left + width) - Math.max(span.from, left);
      const by = bins[at]?.by;
      if (share <= 0 || by === undefined) {
        break;
      }
      by[team] = (by[team] ?? 0) + (share / width) * span.gpus;
      hours[team] = (hours[team] ?? 0) + (share / 3_600_000) * span.gpus;
    }
  }
  return { teams, bins, hours };
}
