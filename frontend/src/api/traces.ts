/** Traces of a run: the list, and the spans of one from wherever they are kept. */
import { queryOptions } from "@tanstack/react-query";

import { escapePath } from "../lib/files";
import { readSpans, type Span } from "../lib/trace-spans";
import { currentTeam, json } from "./client";

const ROOT = "/ajax-api/3.0/mlflow/traces";

export interface Trace {
  trace_id: string;
  request_time: string;
  execution_duration?: string;
  state: string;
  tags?: Record<string, string>;
  request_preview?: string;
  response_preview?: string;
  assessments?: Assessment[];
}

export interface Assessment {
  assessment_id: string;
  assessment_name: string;
  feedback?: { value?: unknown };
  expectation?: { value?: unknown; serialized_value?: { value?: string } };
  rationale?: string;
  valid?: boolean;
}

/** The newest traces of a run. */
export const tracesQuery = (experiment: string, run: string) =>
  queryOptions({
    queryKey: ["traces", currentTeam(), run] as const,
    queryFn: async ({ signal }) => {
      const body = { locations: [{ mlflow_experiment: { experiment_id: experiment } }], filter: `run_id = '${run}'`, max_results: 100 };
      const answer = await json<{ traces?: Trace[] }>(`${ROOT}/search`, { method: "POST", body, signal });
      return answer.traces ?? [];
    },
  });

/** The spans of a trace; clients keep them as a file, OpenTelemetry's are asked for. */
export const spansQuery = (trace: Trace) =>
  queryOptions({
    queryKey: ["spans", currentTeam(), trace.trace_id] as const,
    queryFn: async ({ signal }): Promise<Span[]> => {
      if (trace.tags?.["mlflow.trace.spansLocation"] === "TRACKING_STORE") {
        const answer = await json<{ trace: { spans?: unknown[] } }>(`${ROOT}/get`, { query: { trace_id: trace.trace_id }, signal });
        return readSpans(answer.trace.spans ?? []);
      }
      const root = (trace.tags?.["mlflow.artifactLocation"] ?? "").replace(/^mlflow-artifacts:\/+/, "");
      const file = await json<{ spans?: unknown[] }>(`/api/2.0/mlflow-artifacts/artifacts/${escapePath(`${root}/traces.json`)}`, { signal });
      return readSpans(file.spans ?? []);
    },
    staleTime: 30_000,
  });
