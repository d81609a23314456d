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

const HOUR = 3_600_000;

/** A quick filter in MLflow's language. Times are whole hours, so that the question stays the same for a while. */
function clause(only: string): string | null {
  if (only === "failed") {
    return "attributes.status = 'FAILED'";
  }
  if (only === "day") {
    return `attributes.start_time > ${(Math.floor(Date.now() / HOUR) - 24) * HOUR}`;
  }
  return only.startsWith("by:") ? `attributes.user_id = '${only.slice(3).replace(/'/g, "")}'` : null;
}

/** What was typed and the quick filters together. */
export function wholeFilter(view: Pick<View, "filter" | "only">): string {
  const typed = asFilter(view.filter);
  const quick = view.only.map(clause).filter((one) => one !== null);
  return quick.length === 0 ? typed : [...(typed.trim() === "" ? [] : [`(${typed})`]), ...quick].join(" AND ");
}

/** What is asked of the server for a view. */
export function wishOf(view: View, ids: readonly string[]): Omit<TableWish, keyof Cells> {
  return {
    experiment_ids: ids,
    filter: wholeFilter(view),
    order_by: orderOf(view.sort),
    view: view.deleted ? "DELETED_ONLY" : "ACTIVE_ONLY",
    limit: LIMIT,
  };
}
