/** GPUs held over time, by team, from the jobs that held them. Pure. */
import { isGoing } from "./job-states";

export interface HeldJob {
  state: string;
  team: string;
  gpus: number;
  started_ms: number | null;
  ended_ms: number | null;
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

/** Spread jobs over bins of time: how many GPUs each team held on average in each. */
export function heldOver(jobs: readonly HeldJob[], from: number, to: number, count: number): Held {
  const teams = [...new Set(jobs.map((job) => job.team))].sort();
  const width = (to - from) / count;
  const bins: HeldBin[] = Array.from({ length: count }, (_, at) => ({ at: from + at * width, by: teams.map(() => 0) }));
  const hours = teams.map(() => 0);
  for (const job of jobs) {
    const end = job.ended_ms ?? (isGoing(job) ? to : null);
    if (job.started_ms === null || end === null || job.gpus === 0) {
      continue;
    }
    const team = teams.indexOf(job.team);
    for (let at = Math.max(0, Math.floor((job.started_ms - from) / width)); at < count; at += 1) {
      const left = from + at * width;
      const share = Math.min(end, left + width) - Math.max(job.started_ms, left);
      if (share <= 0) {
        break;
      }
      const by = bins[at]?.by;
      if (by !== undefined) {
        by[team] = (by[team] ?? 0) + (share / width) * job.gpus;
        hours[team] = (hours[team] ?? 0) + (share / 3_600_000) * job.gpus;
      }
    }
  }
  return { teams, bins, hours };
}
