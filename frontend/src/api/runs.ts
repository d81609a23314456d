/** Runs and experiments: reading and changing them. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json, mlflow } from "./client";
import { EXPERIMENTS, NAMES, TABLE, type Cells, type TableWish } from "./table-wish";
import type { components } from "./types.gen";
import type { Experiment, Run } from "./wire";

export { TAGS, type Cells, type TableWish } from "./table-wish";
export type RunsTable = components["schemas"]["RunsTable"];
export type MetricColumn = components["schemas"]["MetricColumn"];
export type KeyNames = components["schemas"]["KeyNames"];
export type ExperimentSummary = components["schemas"]["ExperimentSummary"];
export interface RunMetric {
  key: string;
  last: number | string | null;
  min: number | null;
  max: number | null;
  step: number;
  time_ms: number;
}

export interface WholeRun {
  run: Run;
  experiment_name: string;
  metrics: RunMetric[];
}

/** Keys of everything that is cached, from the widest to the narrowest. */
export const keys = {
  experiments: () => ["experiments", currentTeam()] as const,
  experiment: (id: string) => ["experiment", currentTeam(), id] as const,
  names: (ids: readonly string[]) => ["names", currentTeam(), ...ids] as const,
  table: (wish: TableWish) => ["table", currentTeam(), wish] as const,
  run: (id: string) => ["run", currentTeam(), id] as const,
};

/** The experiments of the team, the one with the latest run first. */
export const experimentsQuery = () =>
  queryOptions({
    queryKey: keys.experiments(),
    queryFn: async ({ signal }) =>
      (await json<components["schemas"]["ExperimentList"]>(EXPERIMENTS, { signal })).experiments,
  });

/** One experiment with its tags. */
export const experimentQuery = (id: string) =>
  queryOptions({
    queryKey: keys.experiment(id),
    queryFn: async ({ signal }) =>
      (await mlflow<{ experiment: Experiment }>("experiments/get", { query: { experiment_id: id }, signal })).experiment,
  });

/** The names of metrics, parameters and tags in some experiments. */
export const namesQuery = (ids: readonly string[]) =>
  queryOptions({
    queryKey: keys.names(ids),
    queryFn: ({ signal }) => json<KeyNames>(NAMES, { query: { experiment_id: ids }, signal }),
    enabled: ids.length > 0,
    staleTime: 5000,
  });

/** A page of the runs table. */
export const tableQuery = (wish: TableWish) =>
  queryOptions({
    queryKey: keys.table(wish),
    queryFn: ({ signal }) => json<RunsTable>(TABLE, { method: "POST", body: wish, signal }),
    enabled: wish.experiment_ids.length > 0,
  });

/** Columns of known runs, in their order. */
export function loadColumns(runs: readonly string[], cells: Cells): Promise<RunsTable> {
  return json<RunsTable>("/api/v1/runs/columns", { method: "POST", body: { run_ids: runs, ...cells } });
}

/** One run, whole. */
export const runQuery = (id: string) =>
  queryOptions({
    queryKey: keys.run(id),
    queryFn: ({ signal }) => json<WholeRun>(`/api/v1/runs/${encodeURIComponent(id)}`, { signal }),
  });

const post = (path: string, body: unknown): Promise<unknown> => mlflow(path, { method: "POST", body });

export const setTag = (run: string, key: string, value: string): Promise<unknown> =>
  post("runs/set-tag", { run_id: run, key, value });
export const deleteTag = (run: string, key: string): Promise<unknown> => post("runs/delete-tag", { run_id: run, key });
export const deleteRun = (run: string): Promise<unknown> => post("runs/delete", { run_id: run });
export const restoreRun = (run: string): Promise<unknown> => post("runs/restore", { run_id: run });
export const renameRun = (run: string, name: string): Promise<unknown> =>
  post("runs/update", { run_id: run, run_name: name });
export const createExperiment = (name: string): Promise<unknown> => post("experiments/create", { name });
export const deleteExperiment = (id: string): Promise<unknown> => post("experiments/delete", { experiment_id: id });
export const restoreExperiment = (id: string): Promise<unknown> => post("experiments/restore", { experiment_id: id });
export const setExperimentTag = (id: string, key: string, value: string): Promise<unknown> =>
  post("experiments/set-experiment-tag", { experiment_id: id, key, value });
export const deleteExperimentTag = (id: string, key: string): Promise<unknown> =>
  post("experiments/delete-experiment-tag", { experiment_id: id, key });

/** Do the same to many runs, a few at a time; returns how many it was done to. */
export async function forEachRun(runs: readonly string[], act: (run: string) => Promise<unknown>): Promise<number> {
  const queue = [...runs];
  let done = 0;
  const worker = async (): Promise<void> => {
    for (let run = queue.shift(); run !== undefined; run = queue.shift()) {
      await act(run);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: 4 }, worker));
  return done;
}
