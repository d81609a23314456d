/** How charts are drawn: axis, smoothing, scales. The same on every page with charts. */
import type { ReactElement, ReactNode } from "react";

import "./chart.css";
import type { Plot, View, XAxis } from "../../lib/view";
import { Icon } from "../../ui/icon";
import { MenuButton, MenuItem } from "../../ui/menu";
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
          <MenuButton name="How lines are drawn" label="" icon="sliders" quiet caret={false} width={300}>
            {() => (
              <>
                <MenuItem checked={view.logY} onClick={() => onChange({ logY: !view.logY })}>
                  Logarithmic y axis
                </MenuItem>
                <MenuItem checked={view.logX} onClick={() => onChange({ logX: !view.logX })}>
                  Logarithmic x axis
                </MenuItem>
                <MenuItem checked={view.band} onClick={() => onChange({ band: !view.band })}>
                  Min and max as a band
                </MenuItem>
                <MenuItem checked={view.orphans} onClick={() => onChange({ orphans: !view.orphans })}>
                  Rolled-back points, dashed
                </MenuItem>
              </>
            )}
          </MenuButton>
          {view.zoom !== null && (
            <button type="button" className="btn small" onClick={() => onChange({ zoom: null })}>
              <Icon name="search" />
              Reset zoom
            </button>
          )}
        </>
      )}
      {children}
    </div>
  );
}
