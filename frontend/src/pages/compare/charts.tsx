/** The curves of the compared runs, laid over each other. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import type { WholeRun } from "../../api/runs";
import { ChartsBar } from "../../features/chart/charts-bar";
import { Panels } from "../../features/chart/panels";
import type { ChartSettings } from "../../features/chart/panel";
import { inOrder } from "../../lib/metric-names";
import { readView, writeView, type View } from "../../lib/view";

const flip = (list: readonly string[], one: string): string[] => (list.includes(one) ? list.filter((name) => name !== one) : [...list, one]);

export function CompareCharts({ runs }: { runs: readonly WholeRun[] }): ReactElement {
  const search = useSearch({ from: "/app/compare" });
  const navigate = useNavigate();
  const key = JSON.stringify(search);
  const view = useMemo(() => ({ ...readView(JSON.parse(key) as Record<string, string>), plot: "lines" as const }), [key]);
  const change = useMemo(() => {
    const held = JSON.parse(key) as Record<string, string>;
    return (part: Partial<View>): void => {
      const next = writeView({ ...readView(held), ...part });
      void navigate({ to: "/app/compare", search: { ...next, runs: held.runs ?? "", tab: "charts" }, replace: true, resetScroll: false });
    };
  }, [key, navigate]);
  const metrics = useMemo(() => inOrder([...new Set(runs.flatMap((one) => one.metrics.map((metric) => metric.key)))]), [runs]);
  const ids = runs.map(({ run }) => run.info.run_id).join();
  const drawn = useMemo(
    () => runs.map(({ run }) => ({ id: run.info.run_id, name: run.info.run_name, start: run.info.start_time })),
    // oxlint-disable-next-line react/exhaustive-deps -- names and starts do not change while one looks
    [ids],
  );
  const settings = useMemo<ChartSettings>(
    () => ({ axis: view.x, logX: view.logX, logY: view.logY, smoothing: view.smoothing, band: view.band, orphans: view.orphans, zoom: view.zoom, onZoom: (zoom) => change({ zoom }) }),
    [view, change],
  );
  return (
    <>
      <ChartsBar view={view} plots={false} onChange={change} />
      <div className="charts">
        <Panels
          metrics={metrics}
          runs={drawn}
          settings={settings}
          search={view.search}
          pinned={view.pinned}
          folded={view.folded}
          onPin={(metric) => change({ pinned: flip(view.pinned, metric) })}
          onFold={(section) => change({ folded: flip(view.folded, section) })}
        />
      </div>
    </>
  );
}
