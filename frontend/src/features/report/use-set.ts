/** The runs of a report's run set, kept fresh while it is looked at. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { experimentsQuery, tableQuery, type RunsTable } from "../../api/runs";
import { columnId, type Column } from "../../lib/columns";
import type { RunSet } from "../../lib/report";
import { cellsOf } from "../table/cells";

/** Milliseconds between two looks at which runs belong to a set; their curves come by the stream. */
const FRESH = 20_000;

export interface FoundRuns {
  table: RunsTable | undefined;
  names: ReadonlyMap<string, string>;
  error: Error | null;
}

export function useRunSet(set: RunSet | null, more: readonly Column[] = []): FoundRuns {
  const experiments = useQuery(experimentsQuery());
  const names = useMemo(() => new Map((experiments.data ?? []).map((one) => [one.experiment_id, one.name])), [experiments.data]);
  const wanted = set?.experiments ?? [];
  const ids = [...names].filter(([id, name]) => wanted.length === 0 || wanted.includes(name) || wanted.includes(id)).map(([id]) => id);
  const unknown = experiments.data === undefined ? undefined : wanted.find((one) => ![...names.values()].includes(one) && !names.has(one));
  const columns = [...(set?.columns ?? []), ...more].map(columnId);
  const table = useQuery({
    ...tableQuery({
      experiment_ids: ids,
      filter: set?.filter ?? "",
      order_by: set === null || set.order.length === 0 ? ["attributes.start_time DESC"] : set.order,
      view: "ACTIVE_ONLY",
      limit: set?.limit ?? 1,
      ...cellsOf(columns),
    }),
    enabled: set !== null && ids.length > 0 && unknown === undefined,
    refetchInterval: FRESH,
    placeholderData: (before) => before,
  });
  const missing = unknown === undefined ? null : new Error(`There is no experiment “${unknown}” in this team.`);
  return { table: table.data, names, error: missing ?? experiments.error ?? table.error };
}
