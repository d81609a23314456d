/** Plots over parameters and metrics: scatter, parallel coordinates, bars, boxes. */
import { useMemo, useRef, type ReactElement } from "react";

import type { KeyNames, RunsTable } from "../../api/runs";
import { toCsv } from "../../lib/csv";
import { columnTitle, parseColumn, type Column } from "../../lib/columns";
import { axesFor, type Explored } from "../../lib/explore";
import { inOrder } from "../../lib/metric-names";
import type { Plot } from "../../lib/view";
import { fileName, save, saveSvg } from "../chart/export";
import { cellAt } from "../table/cells";
import { AxisChoice, ManyAxes } from "./axis-choice";
import { BarPlot, BoxPlot } from "./bars";
import { ParallelPlot } from "./parallel";
import { ScatterPlot } from "./scatter";
import "./explore.css";

interface Props {
  plot: Exclude<Plot, "lines">;
  axes: readonly string[];
  onAxes: (axes: string[]) => void;
  table: RunsTable | null;
  version: number;
  names: KeyNames;
  shown: readonly string[];
}

const MOST = 2000;

export default function Explore({ plot, axes, onAxes, table, version, names, shown }: Props): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const metrics = useMemo(() => inOrder(names.metrics), [names.metrics]);
  const params = useMemo(() => inOrder(names.params), [names.params]);
  const chosen = useMemo(() => axesFor(plot, axes, metrics, params), [plot, axes, metrics, params]);
  const columns = useMemo(() => chosen.map(parseColumn).filter((one): one is Column => one !== null), [chosen]);
  // Axes that came from the start are not in the address yet, and only what is there is loaded.
  if (axes.join() !== chosen.join() && chosen.length > 0) {
    queueMicrotask(() => onAxes(chosen));
  }
  const data = useMemo<Explored[]>(() => {
    if (table === null) {
      return [];
    }
    const place = new Map(table.run_id.map((id, at) => [id, at]));
    const now = Date.now();
    return shown.slice(0, MOST).map((id) => {
      const row = place.get(id) ?? -1;
      return { id, name: table.name[row] ?? id, values: columns.map((column) => cellAt(table, column, row, now) ?? null) };
    });
    // oxlint-disable-next-line react/exhaustive-deps -- the version tells that the table was filled in place
  }, [table, version, shown, columns]);
  const titles = columns.map(columnTitle);
  const title = `${plot} of ${titles.join(", ")}`;
  const csv = (): void => {
    const text = toCsv(["run_id", "run", ...titles], data.map((one) => [one.id, one.name, ...one.values]));
    save(fileName(title, "csv"), new Blob([text], { type: "text/csv" }));
  };
  const png = (): void => {
    const drawing = box.current?.querySelector("svg.explore-plot");
    if (drawing instanceof SVGSVGElement) {
      saveSvg(title, drawing);
    }
  };
  const set = (at: number) => (id: string) => onAxes(chosen.map((one, place) => (place === at ? id : one)));
  const choices = { metrics, params };
  return (
    <div className="explore" ref={box}>
      <div className="row wrap explore-bar">
        {plot === "scatter" && (
          <>
            <AxisChoice label="x" value={chosen[0] ?? ""} onChange={set(0)} {...choices} />
            <AxisChoice label="y" value={chosen[1] ?? ""} onChange={set(1)} {...choices} />
            <AxisChoice label="colour" value={chosen[2] ?? ""} onChange={set(2)} {...choices} />
          </>
        )}
        {plot === "bar" && <AxisChoice label="length" value={chosen[0] ?? ""} onChange={set(0)} {...choices} />}
        {plot === "box" && (
          <>
            <AxisChoice label="value" value={chosen[0] ?? ""} onChange={set(0)} {...choices} />
            <AxisChoice label="by" value={chosen[1] ?? ""} onChange={set(1)} {...choices} />
          </>
        )}
        {plot === "parallel" && <ManyAxes chosen={chosen} onChange={onAxes} {...choices} />}
        <span className="grow" />
        <button type="button" className="btn quiet small" onClick={png}>
          PNG
        </button>
        <button type="button" className="btn quiet small" onClick={csv}>
          CSV
        </button>
      </div>
      {plot === "scatter" && <ScatterPlot data={data} titles={titles} />}
      {plot === "parallel" && <ParallelPlot data={data} titles={titles} />}
      {plot === "bar" && <BarPlot data={data} title={titles[0] ?? ""} />}
      {plot === "box" && <BoxPlot data={data} titles={titles} />}
    </div>
  );
}
