/** How charts are drawn: axis, smoothing, scales. The same on every page with charts. */
import type { ReactElement, ReactNode } from "react";

import type { Plot, View, XAxis } from "../../lib/view";
import { Icon } from "../../ui/icon";
import { Segments } from "../../ui/parts";

export type ChartView = Pick<View, "x" | "logX" | "logY" | "smoothing" | "band" | "orphans" | "search" | "zoom" | "plot">;

const AXES: readonly (readonly [XAxis, string])[] = [
  ["step", "Step"],
  ["time", "Time"],
  ["relative", "Relative"],
];
const PLOTS: readonly (readonly [Plot, string])[] = [
  ["lines", "Lines"],
  ["scatter", "Scatter"],
  ["parallel", "Parallel"],
  ["bar", "Bar"],
  ["box", "Box"],
];

interface Props {
  view: ChartView;
  onChange: (change: Partial<ChartView>) => void;
  /** whether other plots than lines can be chosen */
  plots: boolean;
  children?: ReactNode;
}

export function ChartsBar({ view, onChange, plots, children }: Props): ReactElement {
  return (
    <div className="charts-bar">
      {plots && <Segments label="Kind of chart" value={view.plot} options={PLOTS} onChange={(plot) => onChange({ plot })} />}
      {view.plot === "lines" && (
        <>
          <input
            className="field"
            type="search"
            placeholder="Find a metric"
            aria-label="Find a metric"
            value={view.search}
            onChange={(event) => onChange({ search: event.target.value })}
          />
          <Segments label="Horizontal axis" value={view.x} options={AXES} onChange={(x) => onChange({ x, zoom: null })} />
          <label className="row" title="Exponential smoothing">
            <span className="muted">Smooth</span>
            <input
              type="range"
              min={0}
              max={0.99}
              step={0.01}
              value={view.smoothing}
              aria-label="Smoothing"
              onChange={(event) => onChange({ smoothing: Number(event.target.value) })}
            />
            <span style={{ width: 26 }}>{view.smoothing.toFixed(2)}</span>
          </label>
          <Toggle on={view.logX} word="log x" onChange={(logX) => onChange({ logX })} />
          <Toggle on={view.logY} word="log y" onChange={(logY) => onChange({ logY })} />
          <Toggle on={view.band} word="band" title="Least and greatest value under the line" onChange={(band) => onChange({ band })} />
          <Toggle on={view.orphans} word="rolled back" title="What a restart from an older checkpoint undid, dashed" onChange={(orphans) => onChange({ orphans })} />
          {view.zoom !== null && (
            <button type="button" className="btn small" onClick={() => onChange({ zoom: null })}>
              <Icon name="search" />
              Whole range
            </button>
          )}
        </>
      )}
      {children}
    </div>
  );
}

function Toggle(props: { on: boolean; word: string; title?: string; onChange: (on: boolean) => void }): ReactElement {
  return (
    <button type="button" className="btn quiet small" aria-pressed={props.on} title={props.title} onClick={() => props.onChange(!props.on)}>
      {props.word}
    </button>
  );
}
