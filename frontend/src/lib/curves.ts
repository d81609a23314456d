/** From series as the server rolls them up to curves on an axis. Pure; knows no canvas. */
import { extent, union, type Range } from "./range";
import { smooth } from "./smoothing";
import type { XAxis } from "./view";

export interface Rolled {
  run_id: string;
  key: string;
  width: number;
  step: readonly number[];
  time_ms: readonly number[];
  last: readonly (number | null)[];
  min: readonly (number | null)[];
  max: readonly (number | null)[];
}

export interface Curve {
  id: string;
  name: string;
  colour: string;
  dashed: boolean;
  /** what the curve hangs on: steps, or seconds */
  x: Float64Array;
  /** the line that is drawn: smoothed where that is asked for */
  y: Float64Array;
  /** the values themselves, where the line is smoothed */
  raw: Float64Array | null;
  /** least and greatest per bucket, where buckets hold more than one point */
  low: Float64Array | null;
  high: Float64Array | null;
  step: readonly number[];
}

export interface Look {
  name: string;
  colour: string;
  /** when the run began, for relative time */
  start: number | null;
  dashed?: boolean;
}

const numbers = (values: readonly (number | null)[]): Float64Array =>
  Float64Array.from(values, (value) => value ?? Number.NaN);

/** The places of a series on an axis. */
export function placesOf(series: Rolled, axis: XAxis, start: number | null): Float64Array {
  if (axis === "step") {
    return Float64Array.from(series.step);
  }
  const begin = axis === "relative" ? (start ?? series.time_ms[0] ?? 0) : 0;
  return Float64Array.from(series.time_ms, (time) => (time - begin) / 1000);
}

/** Make the curve of a series. */
export function curveOf(series: Rolled, look: Look, axis: XAxis, smoothing: number): Curve {
  const values = numbers(series.last);
  const rolled = series.width > 1;
  return {
    id: series.run_id,
    name: look.name,
    colour: look.colour,
    dashed: look.dashed ?? false,
    x: placesOf(series, axis, look.start),
    y: smoothing > 0 ? smooth(values, smoothing) : values,
    raw: smoothing > 0 ? values : null,
    low: rolled ? numbers(series.min) : null,
    high: rolled ? numbers(series.max) : null,
    step: series.step,
  };
}

/** Interrupt a curve at places, as between two attempts of a job: no line is drawn over them. */
export function brokenAt(curve: Curve, places: readonly number[]): Curve {
  const cuts = places.map((place) => ({ place, at: lowerBound(curve.x, place) })).filter(({ at }) => at > 0 && at < curve.x.length);
  if (cuts.length === 0) {
    return curve;
  }
  const widen = (values: Float64Array, filler: (place: number) => number): Float64Array => {
    const found = Array.from(values);
    for (let number = cuts.length - 1; number >= 0; number -= 1) {
      const cut = cuts[number];
      if (cut !== undefined) {
        found.splice(cut.at, 0, filler(cut.place));
      }
    }
    return Float64Array.from(found);
  };
  const gap = (values: Float64Array | null): Float64Array | null => (values === null ? null : widen(values, () => Number.NaN));
  const step = Array.from(widen(Float64Array.from(curve.step), () => Number.NaN));
  return { ...curve, x: widen(curve.x, (place) => place), y: widen(curve.y, () => Number.NaN), raw: gap(curve.raw), low: gap(curve.low), high: gap(curve.high), step };
}

/** The range of all curves along the axis. */
export function spanOf(curves: readonly Curve[], log: boolean): Range | null {
  return curves.reduce<Range | null>((found, curve) => union(found, extent(curve.x, log)), null);
}

/** The range of values of all curves between two places. */
export function reachOf(curves: readonly Curve[], within: Range, log: boolean, band: boolean): Range | null {
  let found: Range | null = null;
  for (const curve of curves) {
    const [from, to] = [lowerBound(curve.x, within[0]), lowerBound(curve.x, within[1] + 1e-9)];
    const parts = [curve.y, curve.raw, band ? curve.low : null, band ? curve.high : null];
    for (const part of parts) {
      if (part !== null) {
        found = union(found, extent(part.subarray(from, to), log));
      }
    }
  }
  return found;
}

/** The first place in sorted values that is not below a value. */
export function lowerBound(values: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** The place in sorted values nearest to a value, or -1 in an empty list. */
export function nearest(values: ArrayLike<number>, value: number): number {
  const after = lowerBound(values, value);
  if (after === 0) {
    return values.length === 0 ? -1 : 0;
  }
  if (after === values.length) {
    return after - 1;
  }
  const gapAfter = (values[after] ?? 0) - value;
  const gapBefore = value - (values[after - 1] ?? 0);
  return gapAfter < gapBefore ? after : after - 1;
}

export interface Reading {
  curve: Curve;
  at: number;
  value: number;
}

/** What each curve reads near a place, the greatest first; curves that end before it are left out. */
export function readAt(curves: readonly Curve[], place: number, slack: number): Reading[] {
  const found: Reading[] = [];
  for (const curve of curves) {
    const at = nearest(curve.x, place);
    const value = curve.y[at];
    if (value !== undefined && Number.isFinite(value) && Math.abs((curve.x[at] ?? 0) - place) <= slack) {
      found.push({ curve, at, value });
    }
  }
  return found.sort((a, b) => b.value - a.value);
}

/** The steps to ask for when an axis is zoomed: all that lie in the range, and one bucket more on either side. */
export function stepsIn(series: readonly Rolled[], axis: XAxis, starts: ReadonlyMap<string, number | null>, zoom: Range): Range | null {
  if (axis === "step") {
    return [Math.floor(zoom[0]), Math.ceil(zoom[1])];
  }
  let found: Range | null = null;
  for (const one of series) {
    const places = placesOf(one, axis, starts.get(one.run_id) ?? null);
    const from = Math.max(0, lowerBound(places, zoom[0]) - 1);
    const to = Math.min(one.step.length - 1, lowerBound(places, zoom[1]));
    if (to >= from) {
      found = union(found, [one.step[from] ?? 0, one.step[to] ?? 0]);
    }
  }
  return found;
}

/** The value of a curve at a place, between its points; NaN beyond its ends. */
function valueAt(curve: Curve, place: number): number {
  const after = lowerBound(curve.x, place);
  const right = curve.x[after];
  if (right === undefined) {
    return Number.NaN;
  }
  if (right === place || after === 0) {
    return right === place ? (curve.y[after] ?? Number.NaN) : Number.NaN;
  }
  const left = curve.x[after - 1] ?? right;
  const [low, high] = [curve.y[after - 1] ?? Number.NaN, curve.y[after] ?? Number.NaN];
  return low + ((high - low) * (place - left)) / (right - left);
}

/** Points that a group's curve has at most. */
const GROUP_POINTS = 400;

/** Curves of one group as a single one: their mean, with the least and the greatest of them as its band. */
export function meanOf(curves: readonly Curve[], look: { id: string; name: string; colour: string }): Curve {
  const all = [...new Set(curves.flatMap((curve) => [...curve.x]))].filter(Number.isFinite).sort((a, b) => a - b);
  const every = Math.max(1, Math.ceil(all.length / GROUP_POINTS));
  const x = Float64Array.from(all.filter((_, at) => at % every === 0 || at === all.length - 1));
  const [y, low, high] = [new Float64Array(x.length), new Float64Array(x.length), new Float64Array(x.length)];
  x.forEach((place, at) => {
    const values = curves.map((curve) => valueAt(curve, place)).filter(Number.isFinite);
    const none = values.length === 0;
    y[at] = none ? Number.NaN : values.reduce((sum, value) => sum + value, 0) / values.length;
    low[at] = none ? Number.NaN : Math.min(...values);
    high[at] = none ? Number.NaN : Math.max(...values);
  });
  return { ...look, dashed: false, x, y, raw: null, low, high, step: [...x] };
}

const lost = new WeakMap<Curve, number[]>();

/** Places where a curve was logged but is no number; an interruption between attempts is none. */
export function lostPlaces(curve: Curve): number[] {
  const known = lost.get(curve);
  if (known !== undefined) {
    return known;
  }
  const values = curve.raw ?? curve.y;
  const found: number[] = [];
  for (let at = 0; at < values.length && found.length < 200; at += 1) {
    if (Number.isNaN(values[at]) && Number.isFinite(curve.step[at] ?? Number.NaN)) {
      found.push(curve.x[at] ?? 0);
    }
  }
  lost.set(curve, found);
  return found;
}
