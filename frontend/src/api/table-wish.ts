/** What is asked of the runs table, and the address that asks for it. Small: it is loaded before everything else. */

export interface Cells {
  metrics: readonly string[];
  params: readonly string[];
  tags: readonly string[];
}

export interface TableWish extends Cells {
  experiment_ids: readonly string[];
  filter: string;
  order_by: readonly string[];
  view: "ACTIVE_ONLY" | "DELETED_ONLY";
  limit: number;
}

/** Tags that have a meaning of their own. */
export const TAGS = { star: "yard.star", note: "mlflow.note.content", colour: "mlflow.runColor" } as const;

/** Rows that are read, with their cells, before all others: more than a tall screen shows. */
export const FIRST_ROWS = 64;

export const TABLE = "/api/v1/runs/table";
export const NAMES = "/api/v1/runs/names";
export const EXPERIMENTS = "/api/v1/experiments";
export const SESSION = "/api/v1/session";

/** Both of two sets of cells. */
export function bothCells(one: Cells, other: Cells): Cells {
  const both = (kind: keyof Cells): string[] => [...new Set([...one[kind], ...other[kind]])];
  return { metrics: both("metrics"), params: both("params"), tags: both("tags") };
}

/** A wish as a query string, for an answer that can be asked for before there is a session's secret. */
export function tableQueryOf(wish: TableWish): Record<string, string | number | readonly string[]> {
  return {
    experiment_id: wish.experiment_ids,
    filter: wish.filter,
    order_by: wish.order_by,
    view: wish.view,
    limit: wish.limit,
    metric: wish.metrics,
    param: wish.params,
    tag: wish.tags,
  };
}
