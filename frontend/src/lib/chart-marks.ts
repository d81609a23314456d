/** What a job did, as marks on the charts of its run: where attempts began and where checkpoints were saved. Pure. */
import { causeWord } from "./job-states";
import type { XAxis } from "./view";

interface MarkedJob {
  attempts: readonly { number: number; started_ms: number | null; resume_step: number | null; cause: string | null; exit_code: number | null; signal: number | null }[];
  checkpoints: readonly { step: number; created_ms: number }[];
}

export interface JobMark {
  at: number;
  kind: "attempt" | "checkpoint" | "fault";
  label: string;
}

/** Checkpoints that are marked at most: the latest. */
const MOST = 200;

/** The marks of a job on an axis; `start` is when the run began. */
export function marksOf(job: MarkedJob, axis: XAxis, start: number | null): JobMark[] {
  const place = (ms: number): number => (axis === "time" ? ms / 1000 : (ms - (start ?? ms)) / 1000);
  const attempts = job.attempts.slice(1).flatMap((attempt, at): JobMark[] => {
    const before = job.attempts[at];
    const why = before === undefined ? "" : causeWord(before);
    const where = axis === "step" ? attempt.resume_step : attempt.started_ms === null ? null : place(attempt.started_ms);
    return where === null ? [] : [{ at: where, kind: "attempt", label: `attempt ${attempt.number}${why === "" ? "" : ` after ${why}`}` }];
  });
  const saved = job.checkpoints.slice(0, MOST).map((one): JobMark => ({ at: axis === "step" ? one.step : place(one.created_ms), kind: "checkpoint", label: `checkpoint at step ${one.step}` }));
  return [...attempts, ...saved];
}
