/** Marks on the charts of a run: where attempts of its job began, where checkpoints were saved, what people noted. Pure. */
import { causeWord } from "./job-states";
import { plain } from "./markdown";
import type { XAxis } from "./view";

interface MarkedJob {
  attempts: readonly { number: number; started_ms: number | null; resume_step: number | null; cause: string | null; exit_code: number | null; signal: number | null }[];
  checkpoints: readonly { step: number; created_ms: number }[];
}

export interface JobMark {
  at: number;
  kind: "attempt" | "checkpoint" | "fault" | "note";
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

interface NoteEntry {
  time_ms: number;
  step: number | null;
  actor: string;
  detail: string;
}

/** Characters of a note that its mark shows. */
const NOTE_WORDS = 80;

/** The notes of a run's logbook; over steps only those that name one. */
export function noteMarks(notes: readonly NoteEntry[], axis: XAxis, start: number | null): JobMark[] {
  return notes.flatMap(({ time_ms: time, step, actor, detail }): JobMark[] => {
    const at = axis === "step" ? step : axis === "time" ? time / 1000 : (time - (start ?? time)) / 1000;
    const text = plain(detail);
    return at === null ? [] : [{ at, kind: "note", label: `${actor}: ${text.length > NOTE_WORDS ? `${text.slice(0, NOTE_WORDS)}…` : text}` }];
  });
}
