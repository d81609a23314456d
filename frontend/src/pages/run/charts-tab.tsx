/** The charts of one run: its own metrics, or those of the machine. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";

import type { WholeRun } from "../../api/runs";
import { ChartsBar, type ChartView } from "../../features/chart/charts-bar";
import { AddChart, CustomCharts, useCustomCharts } from "../../features/chart/custom";
import { Panels } from "../../features/chart/panels";
import type { ChartSettings } from "../../features/chart/panel";
import type { JobDetail } from "../../api/jobs";
import { runNotesQuery } from "../../api/logbook";
import { leadMetric } from "../../lib/job-lanes";
import { marksOf, noteMarks } from "../../lib/chart-marks";
import { isSystem } from "../../lib/metric-names";
import { isStep, readView, writeView, type View } from "../../lib/view";

const flip = (list: readonly string[], one: string): string[] => (list.includes(one) ? list.filter((name) => name !== one) : [...list, one]);

export function ChartsTab({ whole, system, job }: { whole: WholeRun; system: boolean; job?: JobDetail | undefined }): ReactElement {
  const { info } = whole.run;
  const search = useSearch({ from: "/app/runs/$runId" });
  const navigate = useNavigate();
  const key = JSON.stringify(search);
  const view = useMemo(() => readView(JSON.parse(key) as Record<string, string>), [key]);
  const change = useMemo(() => {
    const held = JSON.parse(key) as Record<string, string>;
    return (part: Partial<View>): void => {
      const { tab, path } = held;
      const next = writeView({ ...readView(held), ...part });
      void navigate({
        to: "/app/runs/$runId",
        params: { runId: info.run_id },
        search: { ...next, ...(tab === undefined ? {} : { tab }), ...(path === undefined ? {} : { path }) },
        replace: !isStep(readView(held), part),
        resetScroll: false,
      });
    };
  }, [key, navigate, info.run_id]);
  const names = whole.metrics.map((metric) => metric.key).filter((name) => isSystem(name) === system).join("\n");
  const metrics = useMemo(() => (names === "" ? [] : names.split("\n")), [names]);
  const runs = useMemo(() => [{ id: info.run_id, name: info.run_name, start: info.start_time }], [info.run_id, info.run_name, info.start_time]);
  const notes = useQuery(runNotesQuery(info.run_id));
  const custom = useCustomCharts(system ? undefined : info.experiment_id);
  const chartView: ChartView = system && view.x === "step" ? { ...view, x: "relative", plot: "lines" } : { ...view, plot: "lines" };
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
      marks: [...(job === undefined ? [] : marksOf(job, view.x, info.start_time)), ...noteMarks(notes.data ?? [], view.x, info.start_time)],
    }),
    [view, change, job, notes.data, info.start_time],
  );
  if (metrics.length === 0) {
    return (
      <div className="empty">
        <h2>{system ? "No system metrics" : "No metrics yet"}</h2>
        <p className="muted">
          {system ? (
            <>
              MLflow samples the machine when <code>MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true</code> is set before the run starts (with psutil installed, and pynvml for NVIDIA GPUs).
            </>
          ) : (
            "The first logged point appears here by itself."
          )}
        </p>
      </div>
    );
  }
  return (
    <>
      <ChartsBar view={chartView} plots={false} onChange={change}>
        {!system && <AddChart charts={custom} metrics={metrics} />}
      </ChartsBar>
      <div className="charts one-run">
        {!system && <CustomCharts charts={custom} metrics={metrics} runs={runs} settings={settings} search={view.search} />}
        <Panels
          metrics={metrics}
          lead={system ? undefined : leadMetric(metrics) ?? undefined}
          runs={runs}
          settings={settings}
          search={view.search}
          pinned={view.pinned}
          folded={view.folded}
          machineOpen
          onPin={(metric) => change({ pinned: flip(view.pinned, metric) })}
          onFold={(section) => change({ folded: flip(view.folded, section) })}
        />
      </div>
    </>
  );
}
