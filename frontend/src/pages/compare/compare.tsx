/** Runs side by side: parameters, metrics, charts, artifacts, environments. */
import { useQueries } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, type ReactElement } from "react";

import "../../features/chart/chart.css";
import "./compare.css";
import { runQuery, type WholeRun } from "../../api/runs";
import { coloursOf } from "../../lib/colour";
import { count } from "../../lib/format";
import { joinList, splitList } from "../../lib/view";
import { few, yard } from "../../lib/yard-line";
import { ErrorCard, IconButton, PageHead, Skeleton, StateBadge, YardLine } from "../../ui/parts";
import { CompareArtifacts } from "./artifacts";
import { CompareCharts } from "./charts";
import { CompareEnvironment, CompareMetrics, CompareParams } from "./tables";

const MediaView = lazy(() => import("../../features/media/media").then((found) => ({ default: found.MediaView })));

const MOST = 50;
const TABS = [
  ["params", "Parameters"],
  ["metrics", "Metrics"],
  ["charts", "Charts"],
  ["media", "Media"],
  ["artifacts", "Artifacts"],
  ["environment", "Environment"],
] as const;

export function ComparePage(): ReactElement {
  const search = useSearch({ from: "/app/compare" });
  const navigate = useNavigate();
  const ids = splitList(search.runs).slice(0, MOST);
  const tab = TABS.find(([key]) => key === search.tab)?.[0] ?? "params";
  const found = useQueries({ queries: ids.map((id) => runQuery(id)) });
  const set = (change: Record<string, string>): void => void navigate({ to: "/app/compare", search: { ...search, ...change }, replace: true, resetScroll: false });
  const loaded = found.map((one) => one.data);
  const key = found.map((one) => one.dataUpdatedAt).join();
  const runs = useMemo(
    () => loaded.filter((one): one is WholeRun => one !== undefined),
    // oxlint-disable-next-line react/exhaustive-deps -- the key says when any of them changed
    [key, search.runs],
  );
  const fault = found.find((one) => one.error !== null)?.error ?? null;
  if (ids.length < 2) {
    return (
      <div className="empty">
        <h2>Select at least two runs</h2>
        <p className="muted">Select two or more runs in the table, then press c.</p>
        <div>
          <Link className="btn" to="/app/runs" search={{}}>
            Runs
          </Link>
        </div>
      </div>
    );
  }
  const paint = coloursOf(ids);
  return (
    <>
      <PageHead title="Compare" facts={<span>{count(ids.length, "run")}</span>}>
        <YardLine line={yard.diff(few(ids.map((id) => id.slice(0, 12))))} />
      </PageHead>
      {fault !== null && <ErrorCard title="Some runs could not be read" error={fault} retry={() => found.forEach((one) => void one.refetch())} />}
      <div className="compare-runs">
        {runs.map(({ run, experiment_name: experiment }) => (
          <span key={run.info.run_id} className="chip compare-chip">
            <span className="dot" style={{ background: paint.get(run.info.run_id) }} />
            <Link to="/app/runs/$runId" params={{ runId: run.info.run_id }} search={{}} title={experiment}>
              {run.info.run_name}
            </Link>
            <StateBadge status={run.info.status} />
            <IconButton icon="cross" label={`Remove ${run.info.run_name}`} disabled={ids.length <= 2} onClick={() => set({ runs: joinList(ids.filter((id) => id !== run.info.run_id)) })} />
          </span>
        ))}
      </div>
      <div className="tabs" role="tablist" aria-label="What to compare">
        {TABS.map(([one, word]) => (
          <button key={one} type="button" role="tab" aria-selected={one === tab} onClick={() => set({ tab: one })}>
            {word}
          </button>
        ))}
      </div>
      {runs.length < 2 && fault === null && <Skeleton />}
      {runs.length >= 2 && (
        <>
          {tab === "params" && <CompareParams runs={runs} onlyDifferent={search.all !== "1"} onChange={(only) => set({ all: only ? "" : "1" })} />}
          {tab === "metrics" && <CompareMetrics runs={runs} />}
          {tab === "charts" && <CompareCharts runs={runs} />}
          {tab === "media" && (
            <Suspense fallback={<Skeleton />}>
              <MediaView runs={runs.map(({ run }) => ({ id: run.info.run_id, name: run.info.run_name, artifactUri: run.info.artifact_uri, colour: paint.get(run.info.run_id) }))} />
            </Suspense>
          )}
          {tab === "artifacts" && <CompareArtifacts runs={runs} path={search.path ?? ""} onPath={(path) => set({ path })} />}
          {tab === "environment" && <CompareEnvironment runs={runs} />}
        </>
      )}
    </>
  );
}
