/** The charts side of the runs page. */
import { lazy, Suspense, useMemo, type ReactElement } from "react";

import type { KeyNames, RunsTable } from "../../api/runs";
import type { TableStore } from "../../api/table-store";
import { ChartsBar } from "../../features/chart/charts-bar";
import { AddChart, CustomCharts, useCustomCharts } from "../../features/chart/custom";
import { Panels } from "../../features/chart/panels";
import type { ChartRun, ChartSettings } from "../../features/chart/panel";
import { count } from "../../lib/format";
import type { View } from "../../lib/view";
import { Skeleton } from "../../ui/parts";
import { FIRST, MOST, type Rows } from "./use-rows";
import type { Change } from "./use-view";

const Explore = lazy(() => import("../../features/explore/explore"));

interface Props {
  view: View;
  change: Change;
  table: RunsTable | null;
  version: number;
  names: KeyNames;
  columns: readonly string[];
  charted: readonly string[];
  shown: readonly string[];
  groups: Rows["groups"];
  store: TableStore;
}

const flip = (list: readonly string[], one: string): string[] => (list.includes(one) ? list.filter((name) => name !== one) : [...list, one]);

/** Which runs are drawn, in words. */
function caption(view: View, charted: number, groups: number): string {
  if (groups > 0) {
    return `mean and range of ${count(groups, "group")}, ${count(charted, "run")}`;
  }
  if (view.ticked.length > MOST) {
    return `the first ${MOST} of ${view.ticked.length} selected runs`;
  }
  return view.ticked.length > 0 ? count(charted, "selected run") : `the first ${Math.min(FIRST, charted)} runs; select some to choose`;
}

export function ChartsPane(props: Props): ReactElement {
  const { view, change, table, names, charted, groups } = props;
  const custom = useCustomCharts(view.experiments.length === 1 ? view.experiments[0] : undefined);
  const key = charted.join();
  const runs = useMemo<ChartRun[]>(() => {
    if (table === null || key === "") {
      return [];
    }
    const place = new Map(table.run_id.map((id, at) => [id, at]));
    return key.split(",").map((id) => {
      const at = place.get(id) ?? -1;
      const group = groups?.get(id);
      return { id, name: table.name[at] ?? id, start: table.start_ms[at] ?? null, ...(group === undefined ? {} : { group }) };
    });
  }, [table, key, groups]);
  const settings = useMemo<ChartSettings>(
    () => ({
      axis: view.x,
      logX: view.logX,
      logY: view.logY,
      smoothing: view.smoothing,
      band: view.band,
      orphans: view.orphans,
      zoom: view.zoom,
      onZoom: (zoom) => change({ zoom }),
    }),
    [view.x, view.logX, view.logY, view.smoothing, view.band, view.orphans, view.zoom, change],
  );
  return (
    <>
      <ChartsBar view={view} plots onChange={change}>
        {view.plot === "lines" && <span className="faint">{caption(view, runs.length, new Set(runs.map((run) => run.group?.id).filter((id) => id !== undefined)).size)}</span>}
        {view.plot === "lines" && <AddChart charts={custom} metrics={names.metrics} />}
      </ChartsBar>
      <div className="charts">
        {view.plot === "lines" && <CustomCharts charts={custom} metrics={names.metrics} runs={runs} settings={settings} search={view.search} />}
        {view.plot === "lines" ? (
          <Panels
            metrics={names.metrics}
            runs={runs}
            settings={settings}
            search={view.search}
            pinned={view.pinned}
            folded={view.folded}
            onPin={(metric) => change(({ pinned }) => ({ pinned: flip(pinned, metric) }))}
            onFold={(section) => change(({ folded }) => ({ folded: flip(folded, section) }))}
          />
        ) : (
          <Suspense fallback={<Skeleton />}>
            <Explore plot={view.plot} axes={view.axes} onAxes={(axes) => change({ axes })} table={table} version={props.version} names={names} shown={props.shown} />
          </Suspense>
        )}
      </div>
    </>
  );
}
