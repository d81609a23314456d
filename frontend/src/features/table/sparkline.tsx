/** A curve in the space of a word: the shape of a metric over a run. */
import { useSyncExternalStore, useCallback, useMemo, useRef, type ReactElement } from "react";

import { seriesStore, type Series, type Want } from "../../api/series";
import { extent } from "../../lib/range";

/** The path of a curve in a box; points that are no number leave a gap. */
export function sparkPath(series: Pick<Series, "step" | "last">, width: number, height: number): string {
  const xs = extent(series.step);
  const values = series.last.map((value) => value ?? Number.NaN);
  const ys = extent(values);
  if (xs === null || ys === null) {
    return "";
  }
  const [x0, x1] = xs;
  const [y0, y1] = ys;
  let path = "";
  let pen = false;
  series.step.forEach((step, at) => {
    const value = values[at] ?? Number.NaN;
    if (!Number.isFinite(value)) {
      pen = false;
      return;
    }
    const x = x1 === x0 ? width / 2 : ((step - x0) / (x1 - x0)) * (width - 2) + 1;
    const y = y1 === y0 ? height / 2 : height - 1.5 - ((value - y0) / (y1 - y0)) * (height - 3);
    path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  });
  return path;
}

const EMPTY: Series[] = [];

/** Watch series in the store; the same array comes back until something changed. */
export function useSeries(want: Want | null): { series: Series[]; loading: boolean; fault: string | null } {
  const key = want === null ? "" : JSON.stringify(want);
  const held = useRef<{ key: string; series: Series[]; loading: boolean; fault: string | null } | null>(null);
  const parsed = useMemo(() => (key === "" ? null : (JSON.parse(key) as Want)), [key]);
  const read = useCallback(() => {
    if (parsed === null) {
      return { key, series: EMPTY, loading: false, fault: null };
    }
    return { key, series: seriesStore.get(parsed), ...seriesStore.stateOf(parsed) };
  }, [key, parsed]);
  const subscribe = useCallback(
    (changed: () => void) => {
      if (parsed === null) {
        return () => undefined;
      }
      return seriesStore.watch(parsed, () => {
        held.current = read();
        changed();
      });
    },
    [parsed, read],
  );
  const get = useCallback(() => {
    if (held.current?.key !== key) {
      held.current = read();
    }
    return held.current;
  }, [key, read]);
  return useSyncExternalStore(subscribe, get);
}

/** The curve of one metric of one run. */
export function Sparkline(props: { run: string; metric: string; colour: string; width?: number; height?: number }): ReactElement {
  const { run, metric, colour, width = 96, height = 20 } = props;
  const want = useMemo(() => ({ runs: [run], key: metric, points: 48, span: null, orphans: false }), [run, metric]);
  const { series } = useSeries(want);
  const path = useMemo(() => (series[0] === undefined ? "" : sparkPath(series[0], width, height)), [series, width, height]);
  return (
    <svg className="spark" width={width} height={height} role="img" aria-label={path === "" ? `no ${metric}` : `curve of ${metric}`}>
      <path d={path} fill="none" stroke={colour} strokeWidth="1.4" strokeLinejoin="round" />
    </svg>
  );
}
