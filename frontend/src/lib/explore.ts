/** What plots over parameters and metrics need: axes, scales of numbers and of words, quartiles. Pure. */
import { niceStep, padded, type Range } from "./range";
import type { Plot } from "./view";

export type Value = number | string | null;

export interface Explored {
  id: string;
  name: string;
  values: Value[];
}

/** The axes a plot starts with, keeping those already chosen that it can use. */
export function axesFor(plot: Exclude<Plot, "lines">, axes: readonly string[], metrics: readonly string[], params: readonly string[]): string[] {
  const shown = metrics.filter((name) => !name.startsWith("system/"));
  const rank = (name: string): number => (/^(val|eval)/.test(name) ? 0 : name.startsWith("test") ? 1 : 2);
  const ranked = [...shown].sort((a, b) => rank(a) - rank(b)).map((name) => `metric:${name}`);
  const words = params.map((name) => `param:${name}`);
  const wanted = { scatter: 3, bar: 1, box: 2, parallel: 0 }[plot];
  const start: Record<typeof plot, (string | undefined)[]> = {
    scatter: [words[0] ?? ranked[1], ranked[0], words[1] ?? ranked[0]],
    bar: [ranked[0]],
    box: [ranked[0], words[0]],
    parallel: [...words.slice(0, 5), ranked[0]],
  };
  const kept = axes.filter((id) => ranked.includes(id.replace(/@(min|max)$/, "")) || words.includes(id) || id.startsWith("metric:"));
  if (plot === "parallel") {
    return kept.length >= 2 ? [...kept] : start.parallel.filter((one): one is string => one !== undefined);
  }
  // Axes of another kind of plot are of no use here; a length or a value must be a number.
  const fits = kept.length === wanted && (plot === "scatter" || kept[0]?.startsWith("metric:") === true);
  return (fits ? kept : start[plot]).filter((one): one is string => one !== undefined);
}

export interface Scale {
  /** whether every value is a number */
  numeric: boolean;
  range: Range;
  /** the words of an axis that is not numeric, in order */
  words: string[];
  /** where a value lies, from 0 to 1; null for none */
  at: (value: Value) => number | null;
  ticks: { at: number; label: string }[];
}

/** Make a scale for values that may be numbers written as text, or words. */
export function scaleOf(values: readonly Value[], label: (value: number) => string, log = false): Scale {
  const there = values.filter((value): value is number | string => value !== null && value !== "");
  const numbers = there.map(Number);
  const numeric = there.length > 0 && numbers.every(Number.isFinite);
  return numeric ? numberScale(numbers, label, log) : wordScale(there.map(String));
}

function numberScale(numbers: readonly number[], label: (value: number) => string, log: boolean): Scale {
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const isLog = (log || (low > 0 && high / low >= 50)) && low > 0;
  const range = padded([low, high], isLog);
  const place = (value: number): number =>
    isLog ? Math.log(value / range[0]) / Math.log(range[1] / range[0]) : (value - range[0]) / (range[1] - range[0]);
  const ticks = isLog ? powers(range) : rounds(range);
  return {
    numeric: true,
    range,
    words: [],
    at: (value) => (value === null || value === "" || !Number.isFinite(Number(value)) ? null : place(Number(value))),
    ticks: ticks.map((value) => ({ at: place(value), label: label(value) })),
  };
}

function rounds([low, high]: Range): number[] {
  const step = niceStep((high - low) / 5);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

function powers([low, high]: Range): number[] {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => Number(`1e${first + at}`));
}

function wordScale(values: readonly string[]): Scale {
  const words = [...new Set(values)].sort(new Intl.Collator("en", { numeric: true }).compare);
  const places = new Map(words.map((word, at) => [word, words.length === 1 ? 0.5 : at / (words.length - 1)]));
  return {
    numeric: false,
    range: [0, 1],
    words,
    at: (value) => (value === null ? null : (places.get(String(value)) ?? null)),
    ticks: words.slice(0, 24).map((word) => ({ at: places.get(word) ?? 0, label: word })),
  };
}

export interface Quartiles {
  low: number;
  q1: number;
  median: number;
  q3: number;
  high: number;
  outliers: number[];
}

/** The five numbers of a box, with what lies beyond one and a half times its height. */
export function quartiles(values: readonly number[]): Quartiles | null {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) {
    return null;
  }
  const at = (share: number): number => {
    const place = share * (sorted.length - 1);
    const below = sorted[Math.floor(place)] ?? 0;
    return below + ((sorted[Math.ceil(place)] ?? below) - below) * (place - Math.floor(place));
  };
  const [q1, q3] = [at(0.25), at(0.75)];
  const reach = (q3 - q1) * 1.5;
  const inside = sorted.filter((value) => value >= q1 - reach && value <= q3 + reach);
  return {
    low: inside[0] ?? q1,
    q1,
    median: at(0.5),
    q3,
    high: inside[inside.length - 1] ?? q3,
    outliers: sorted.filter((value) => value < q1 - reach || value > q3 + reach),
  };
}
