/** The queue in order, and the thin axis of time beside it. Pure. */
import { isGoing } from "./job-states";
import { isStuck } from "./reasons";

interface JobLike {
  job_id: string;
  state: string;
  held: boolean;
  position: number | null;
  submitted_ms: number;
  started_ms: number | null;
  time_limit_seconds: number | null;
  reason: { code: string; tier: string } | null;
}

export interface Sections<T> {
  going: T[];
  waiting: T[];
  /** those that start only when someone does something */
  stuck: T[];
}

/** Sort jobs into what runs, what waits in order of start, and what cannot start as it is. */
export function sectionsOf<T extends JobLike>(jobs: readonly T[]): Sections<T> {
  const byPlace = (a: T, b: T): number => (a.position ?? Infinity) - (b.position ?? Infinity) || a.submitted_ms - b.submitted_ms;
  const queued = jobs.filter((job) => job.state === "queued");
  return {
    going: jobs.filter(isGoing).sort((a, b) => (a.started_ms ?? Infinity) - (b.started_ms ?? Infinity) || a.submitted_ms - b.submitted_ms),
    waiting: queued.filter((job) => !isStuck(job)).sort(byPlace),
    stuck: queued.filter(isStuck).sort(byPlace),
  };
}

/** Jobs of several lists, each once: one that is in two for a moment is as the later list says. */
export function merged<T extends { job_id: string }>(lists: readonly (readonly T[])[]): T[] {
  return [...new Map(lists.flat().map((job) => [job.job_id, job])).values()];
}

export interface Axis {
  from: number;
  now: number;
  to: number;
}

const MINUTE = 60_000;
const LEAST = 10 * MINUTE;
const MOST = 48 * 3600 * 1000;
/** Lengths an axis may have ahead of now, so that it does not creep with every second. */
const LENGTHS = [10, 20, 30, 60, 120, 240, 480, 720, 1440, 2880].map((minutes) => minutes * MINUTE);

/** An axis that shows the forecasts and the ends that are known; a quarter of it is the past. */
export function axisOf(now: number, ahead: readonly (number | null | undefined)[]): Axis {
  const furthest = Math.max(LEAST, ...ahead.map((time) => (typeof time === "number" ? Math.min(MOST, time - now) : 0)));
  const length = LENGTHS.find((one) => one >= furthest) ?? MOST;
  return { from: now - length / 3, now, to: now + length };
}

/** A place on the axis in percent, kept within it. */
export function place(axis: Axis, time: number): number {
  return Math.min(100, Math.max(0, ((time - axis.from) / (axis.to - axis.from)) * 100));
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * MINUTE);

/** Round times on the axis, a handful; zone is the reader's, in minutes as getTimezoneOffset tells. */
export function ticksOf(axis: Axis, zone = new Date(axis.now).getTimezoneOffset()): number[] {
  const step = STEPS.find((one) => (axis.to - axis.from) / one <= 7) ?? 1440 * MINUTE;
  const shift = zone * MINUTE;
  const ticks: number[] = [];
  for (let time = Math.ceil((axis.from - shift) / step) * step + shift; time <= axis.to; time += step) {
    ticks.push(time);
  }
  return ticks;
}

/** When a running job must be over, where that is known. */
export function endOf(job: Pick<JobLike, "started_ms" | "time_limit_seconds">): number | null {
  return job.started_ms === null || job.time_limit_seconds === null ? null : job.started_ms + job.time_limit_seconds * 1000;
}

/** Width of a letter of an axis label, in pixels, and the room between two labels. */
const LETTER = 6.4;
const GAP = 12;

/** Ticks whose words overlap neither each other nor the word at now, on an axis so many pixels wide. */
export function labelsOf(axis: Axis, width: number, wordOf: (time: number) => string, zone?: number): { time: number; word: string }[] {
  const at = (time: number): number => (place(axis, time) / 100) * width;
  const span = (time: number, word: string): readonly [number, number] => [at(time), at(time) + word.length * LETTER + GAP];
  const taken: (readonly [number, number])[] = [span(axis.now, "now")];
  return ticksOf(axis, zone).flatMap((time) => {
    const word = wordOf(time);
    const [from, to] = span(time, word);
    if (to > width + GAP || taken.some(([first, last]) => from < last && to > first)) {
      return [];
    }
    taken.push([from, to]);
    return [{ time, word }];
  });
}
