/** The range of an axis: round ends, room for the curve, and no jumps while points stream in. Pure. */

export type Range = readonly [number, number];

/** The least and greatest finite value; only positive ones count on a log axis. */
export function extent(values: Iterable<number>, log = false): Range | null {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (!Number.isFinite(value) || (log && value <= 0)) {
      continue;
    }
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low <= high ? [low, high] : null;
}

/** Join two ranges, either of which may be missing. */
export function union(a: Range | null, b: Range | null): Range | null {
  if (a === null || b === null) {
    return a ?? b;
  }
  return [Math.min(a[0], b[0]), Math.max(a[1], b[1])];
}

/** Widen a range a little, to round numbers. */
export function padded(range: Range | null, log = false): Range {
  if (range === null) {
    return log ? [0.1, 1] : [0, 1];
  }
  const [low, high] = range;
  if (log) {
    return low === high ? [low / 2, high * 2] : [low / 1.15, high * 1.15];
  }
  if (low === high) {
    const room = Math.abs(low) * 0.1 || 1;
    return [low - room, high + room];
  }
  const room = (high - low) * 0.05;
  const step = niceStep((high - low) / 8);
  const rounded: Range = [Math.floor((low - room) / step) * step, Math.ceil((high + room) / step) * step];
  // A curve that never goes below zero gets an axis that does not either.
  return [low >= 0 && rounded[0] < 0 ? 0 : rounded[0], high <= 0 && rounded[1] > 0 ? 0 : rounded[1]];
}

/** The next of 1, 2, 5 times a power of ten. */
export function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  const share = rough / power;
  if (share <= 1) {
    return power;
  }
  return share <= 2 ? 2 * power : share <= 5 ? 5 * power : 10 * power;
}

/**
 * The range to draw now, given the one drawn before. While data grow it stays unless the curve
 * leaves it, or would fill less than half of it.
 */
export function steady(before: Range | null, data: Range | null, log = false): Range {
  const wanted = padded(data, log);
  if (before === null || data === null) {
    return wanted;
  }
  const inside = data[0] >= before[0] && data[1] <= before[1];
  const measure = (range: Range): number => (log ? Math.log(range[1] / range[0]) : range[1] - range[0]);
  return inside && measure(wanted) > measure(before) / 2 ? before : wanted;
}

/**
 * The places of ticks on a logarithmic axis: 1 to 9 of each power of ten within the range. The chart library's own
 * never end where the least value begins with a 9, so ours are given to it.
 */
export function logTicks(low: number, high: number): number[] {
  const ticks: number[] = [];
  if (!(low > 0) || !Number.isFinite(high)) {
    return ticks;
  }
  for (let exponent = Math.floor(Math.log10(low)); exponent <= Math.log10(high); exponent += 1) {
    for (let digit = 1; digit <= 9; digit += 1) {
      const tick = Number(`${digit}e${exponent}`);
      if (tick >= low && tick <= high) {
        ticks.push(tick);
      }
    }
  }
  return ticks.length > 0 ? ticks : [low, high];
}

/** Steps of a scale of 1, 2, 2.5 and 5 times powers of ten, or of another set. */
function stepsBelow(rough: number): number[] {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [10, 5, 2.5, 2, 1, 0.5, 0.25, 0.2, 0.1].map((share) => share * power);
}

/**
 * Round places between two ends: the fewest that are at least four, and no more than fit. `steps` are the steps that may be taken,
 * where not every one is round (seconds, whole steps).
 */
export function ticksIn(low: number, high: number, fit: number, steps?: readonly number[]): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) {
    return [low];
  }
  const places = (step: number): number => Math.floor(high / step + 1e-9) - Math.ceil(low / step - 1e-9) + 1;
  const most = Math.max(4, Math.floor(fit));
  const fitting = (steps ?? stepsBelow(span)).toSorted((a, b) => b - a).filter((step) => places(step) <= most);
  const step = fitting.find((one) => places(one) >= 4) ?? fitting.at(-1) ?? span;
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, places(step)) }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}
