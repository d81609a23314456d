/** A chart of one's own: an expression over metrics against the usual axis, or against another expression. Pure. */
import type { Curve, Look, Rolled } from "./curves";
import { placesOf } from "./curves";
import { BUILT_IN, evaluate, namesIn, parseExpression, type Node } from "./expression";
import { smooth } from "./smoothing";
import type { XAxis } from "./view";

export interface CustomChart {
  title: string;
  y: string;
  /** empty for the axis of the page */
  x: string;
}

/** Charts are kept as tags of the experiment, so that the team has them. */
export const CHART_TAG = "yard.chart.";

export function readChart(key: string, value: string): CustomChart | null {
  try {
    const found = JSON.parse(value) as Partial<CustomChart>;
    return key.startsWith(CHART_TAG) && typeof found.y === "string" ? { title: key.slice(CHART_TAG.length), y: found.y, x: typeof found.x === "string" ? found.x : "" } : null;
  } catch {
    return null;
  }
}

export const writeChart = ({ y, x }: CustomChart): string => JSON.stringify(x === "" ? { y } : { y, x });

/** The metrics that a chart needs; none where it cannot be read. */
export function metricsOf(chart: Pick<CustomChart, "x" | "y">): string[] {
  try {
    const all = [chart.y, ...(chart.x === "" ? [] : [chart.x])].flatMap((text) => namesIn(parseExpression(text)));
    return [...new Set(all)].filter((name) => !BUILT_IN.includes(name));
  } catch {
    return [];
  }
}

/**
 * One run's curve. Metrics are joined on their steps: where one has no point at a step, its last point before counts,
 * and nothing is drawn before each has had one.
 */
export function customCurve(chart: Pick<CustomChart, "x" | "y">, series: readonly Rolled[], look: Look, axis: XAxis, smoothing: number): Curve | null {
  const first = series[0];
  if (first === undefined) {
    return null;
  }
  const y = parseExpression(chart.y);
  const x = chart.x === "" ? null : parseExpression(chart.x);
  const { step, time, values } = joined(series);
  const start = look.start ?? time[0] ?? 0;
  const at = (node: Node, place: number): number =>
    evaluate(node, (name) => (name === "step" ? (step[place] ?? Number.NaN) : name === "time" ? ((time[place] ?? 0) - start) / 1000 : (values.get(name)?.[place] ?? Number.NaN)));
  const ys = Float64Array.from(step, (_, place) => finite(at(y, place)));
  const base = { ...first, width: 1, step, time_ms: time };
  const xs = x === null ? placesOf(base, axis, look.start) : Float64Array.from(step, (_, place) => finite(at(x, place)));
  // Lines are drawn from left to right; what has no place on the axis is left out.
  const order = [...xs.keys()].filter((place) => !Number.isNaN(xs[place] ?? Number.NaN)).toSorted((a, b) => (xs[a] ?? 0) - (xs[b] ?? 0) || a - b);
  const line = Float64Array.from(order, (place) => ys[place] ?? Number.NaN);
  return {
    id: first.run_id,
    name: look.name,
    colour: look.colour,
    dashed: false,
    x: Float64Array.from(order, (place) => xs[place] ?? Number.NaN),
    y: smoothing > 0 ? smooth(line, smoothing) : line,
    raw: smoothing > 0 ? line : null,
    low: null,
    high: null,
    step: order.map((place) => step[place] ?? 0),
  };
}

const finite = (value: number): number => (Number.isFinite(value) ? value : Number.NaN);

function joined(series: readonly Rolled[]): { step: number[]; time: number[]; values: Map<string, number[]> } {
  const times = new Map<number, number>();
  for (const one of series) {
    one.step.forEach((step, at) => times.set(step, Math.max(times.get(step) ?? 0, one.time_ms[at] ?? 0)));
  }
  const step = [...times.keys()].toSorted((a, b) => a - b);
  const values = new Map<string, number[]>();
  for (const one of series) {
    let at = -1;
    values.set(
      one.key,
      step.map((place) => {
        while (at + 1 < one.step.length && (one.step[at + 1] ?? 0) <= place) {
          at += 1;
        }
        return at < 0 ? Number.NaN : (one.last[at] ?? Number.NaN);
      }),
    );
  }
  return { step, time: step.map((one) => times.get(one) ?? 0), values };
}
