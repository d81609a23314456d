/** From a calendar's rows to bars: places in percent, lanes for what overlaps, and what a drag makes of a lease. Pure. */
import type { Scale, Window } from "./calendar-time";
import { MINUTE, snap, stepOf } from "./calendar-time";

export interface Span {
  starts_ms: number;
  ends_ms: number;
}

export interface Place {
  left: number;
  width: number;
}

/** Where a span lies in a window, in percent, cut at its edges; null where it is outside. */
export function placeOf({ starts_ms: starts, ends_ms: ends }: Span, { from, to }: Window): Place | null {
  const first = Math.max(starts, from);
  const last = Math.min(ends, to);
  if (last <= first) {
    return null;
  }
  const share = 100 / (to - from);
  return { left: (first - from) * share, width: (last - first) * share };
}

/** The lane of each span, so that none lies on another; the earliest first. */
export function lanesOf<T extends Span>(spans: readonly T[]): { span: T; lane: number }[] {
  const ends: number[] = [];
  return spans
    .toSorted((a, b) => a.starts_ms - b.starts_ms || b.ends_ms - a.ends_ms)
    .map((span) => {
      const free = ends.findIndex((end) => end <= span.starts_ms);
      const lane = free < 0 ? ends.length : free;
      ends[lane] = span.ends_ms;
      return { span, lane };
    });
}

/** What is being drawn, moved or stretched, before it is confirmed. */
export interface Draft extends Span {
  nodes: string[];
}

export type Grip = "move" | "start" | "end";

/** A lease after a drag by some time: as a whole, or by one edge. It keeps one step at least. */
export function dragged(lease: Span, grip: Grip, by: number, scale: Scale): Span {
  const step = stepOf(scale);
  if (grip === "move") {
    const starts = snap(lease.starts_ms + by, step);
    return { starts_ms: starts, ends_ms: starts + lease.ends_ms - lease.starts_ms };
  }
  if (grip === "start") {
    return { starts_ms: Math.min(snap(lease.starts_ms + by, step), lease.ends_ms - Math.min(step, 15 * MINUTE)), ends_ms: lease.ends_ms };
  }
  return { starts_ms: lease.starts_ms, ends_ms: Math.max(snap(lease.ends_ms + by, step), lease.starts_ms + Math.min(step, 15 * MINUTE)) };
}

/** A new lease from where a drag began to where it ended. It begins no earlier than now. */
export function drawn(from: number, to: number, scale: Scale, now: number, length: number): Span {
  const step = stepOf(scale);
  const soonest = Math.ceil(now / MINUTE) * MINUTE;
  const starts = Math.max(soonest, snap(Math.min(from, to), step));
  const ends = snap(Math.max(from, to), step);
  return { starts_ms: starts, ends_ms: ends > starts ? ends : starts + length };
}

/** The rows from one to another, both included. */
export function between(rows: readonly string[], one: string, other: string): string[] {
  const [a, b] = [rows.indexOf(one), rows.indexOf(other)];
  return a < 0 || b < 0 ? [one] : rows.slice(Math.min(a, b), Math.max(a, b) + 1);
}

/** The call that makes a lease what it shall be; null where nothing changes. */
export type Verb = "extend" | "shrink" | "move";

export function verbOf(lease: Draft, wanted: Draft): Verb | null {
  const [before, after] = [new Set(lease.nodes), new Set(wanted.nodes)];
  const sameNodes = before.size === after.size && wanted.nodes.every((node) => before.has(node));
  const fewer = after.size < before.size && wanted.nodes.every((node) => before.has(node));
  const sameStart = lease.starts_ms === wanted.starts_ms;
  if (sameNodes && sameStart && lease.ends_ms === wanted.ends_ms) {
    return null;
  }
  if (sameNodes && sameStart) {
    return wanted.ends_ms > lease.ends_ms ? "extend" : "shrink";
  }
  return fewer && sameStart && lease.ends_ms === wanted.ends_ms ? "shrink" : "move";
}
