/** A chart in a report: the curves of a run set, with their names below. */
import { useMemo, useState, type ReactElement } from "react";

import "../chart/chart.css";
import { coloursOf, PALETTE } from "../../lib/colour";
import type { Column } from "../../lib/columns";
import type { RunsTable } from "../../api/runs";
import type { Range } from "../../lib/range";
import type { ReportChart, RunSet } from "../../lib/report";
import { ErrorCard, Skeleton } from "../../ui/parts";
import { CustomPanel } from "../chart/custom";
import { Panel, type ChartRun, type ChartSettings } from "../chart/panel";
import { cellAt } from "../table/cells";
import { useRunSet } from "./use-set";

interface Props {
  chart: ReportChart;
  sets: ReadonlyMap<string, RunSet>;
  /** its place in the report: charts do not share their cursors */
  id: string;
}

export function ChartBlock({ chart, sets, id }: Props): ReactElement {
  const set = typeof chart.runs === "string" ? sets.get(chart.runs) : chart.runs;
  const found = useRunSet(set ?? null, chart.group === null ? [] : [chart.group]);
  const runs = useRuns(found.table, chart.group);
  const [zoom, setZoom] = useState<Range | null>(null);
  const { axis, smoothing, logX, logY } = chart;
  const settings = useMemo<ChartSettings>(
    () => ({ axis, smoothing, logX, logY, band: true, orphans: false, zoom, onZoom: setZoom }),
    [axis, smoothing, logX, logY, zoom],
  );
  const custom = useMemo(() => ({ title: chart.title === "" ? chart.y : chart.title, y: chart.y, x: chart.x }), [chart.title, chart.y, chart.x]);
  if (set === undefined) {
    return <ErrorCard title="This chart cannot be drawn" error={`No block of this report defines the run set “${String(chart.runs)}”. Add a runs block with “name: ${String(chart.runs)}”.`} />;
  }
  if (found.error !== null) {
    return <ErrorCard title="The runs of this chart could not be read" error={found.error} />;
  }
  return (
    <div className="report-chart">
      {found.table === undefined ? (
        <Skeleton rows={5} />
      ) : chart.isExpression ? (
        <CustomPanel chart={custom} runs={runs} settings={settings} />
      ) : (
        <Panel metric={chart.y} title={chart.title === "" ? chart.y : chart.title} runs={runs} settings={settings} sync={id} />
      )}
      <Legend runs={runs} />
    </div>
  );
}

/** The runs as a chart takes them, with their groups. */
function useRuns(table: RunsTable | undefined, group: Column | null): ChartRun[] {
  return useMemo(() => {
    const rows = table?.run_id ?? [];
    const word = (row: number): string => (table === undefined || group === null ? "" : String(cellAt(table, group, row, 0) ?? "—"));
    const hues = new Map([...new Set(rows.map((_, row) => word(row)))].toSorted().map((one, at) => [one, PALETTE[at % PALETTE.length] ?? PALETTE[0]]));
    return rows.map((id, row) => ({
      id,
      name: table?.name[row] ?? id,
      start: table?.start_ms[row] ?? null,
      ...(group === null ? {} : { group: { id: word(row), name: `${group.key} ${word(row)}`, colour: hues.get(word(row)) ?? "#888888" } }),
    }));
  }, [table, group]);
}

/** Which line is whose: a report is read without a pointer, too. */
function Legend({ runs }: { runs: readonly ChartRun[] }): ReactElement {
  const paint = coloursOf(runs.map((run) => run.id));
  const lines = new Map(runs.map((run) => [run.group?.id ?? run.id, { name: run.group?.name ?? run.name, colour: run.group?.colour ?? paint.get(run.id) }]));
  return (
    <ul className="report-legend" aria-label="Lines of the chart">
      {[...lines].map(([id, { name, colour }]) => (
        <li key={id}>
          <span className="dot" style={{ background: colour }} /> {name}
        </li>
      ))}
    </ul>
  );
}
