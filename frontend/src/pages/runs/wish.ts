/** What a view asks of the server. */
import type { Cells, TableWish } from "../../api/table-wish";
import { orderBy, parseColumn } from "../../lib/columns";
import { asFilter } from "../../lib/filter";
import type { View } from "../../lib/view";

const LIMIT = 20_000;

/** The order the server is asked for. */
export function orderOf(sort: string): string[] {
  const column = parseColumn(sort.replace(/^-/, ""));
  const by = column === null ? null : orderBy(column);
  return by === null ? ["attributes.start_time DESC"] : [`${by} ${sort.startsWith("-") ? "DESC" : "ASC"}`];
}

/** What is asked of the server for a view. */
export function wishOf(view: View, ids: readonly string[]): Omit<TableWish, keyof Cells> {
  return {
    experiment_ids: ids,
    filter: asFilter(view.filter),
    order_by: orderOf(view.sort),
    view: view.deleted ? "DELETED_ONLY" : "ACTIVE_ONLY",
    limit: LIMIT,
  };
}
