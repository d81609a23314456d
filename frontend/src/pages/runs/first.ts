/** What the runs page shows first, found from its address alone. Shared by the page and by what asks ahead of it. */
import { bothCells, FIRST_ROWS, type TableWish } from "../../api/table-wish";
import { cellsOf, needs } from "../../features/table/cells";
import { defaultColumns } from "../../lib/columns";
import { inOrder } from "../../lib/metric-names";
import type { View } from "../../lib/view";
import { wishOf } from "./wish";

/** Columns read for the first rows; a wide screen shows fewer. */
const ACROSS = 20;

interface Names {
  metrics: readonly string[];
  params: readonly string[];
}

/** The columns of the address, or those a page starts with. */
export function columnsOf(chosen: readonly string[] | null, names: Names, several: boolean): readonly string[] {
  if (chosen !== null) {
    return chosen;
  }
  const found = defaultColumns(inOrder(names.metrics), inOrder(names.params));
  return several ? ["attribute:experiment", ...found] : found;
}

/** Those of the columns that are on screen before anyone scrolls. */
export function firstColumns(columns: readonly string[]): readonly string[] {
  return columns.slice(0, ACROSS);
}

/** Columns that are read for every row: what is grouped by and plotted. */
export function wholeColumns(view: View): string[] {
  return [...view.group, ...(view.plot === "lines" ? [] : view.axes)];
}

/** The first thing that the page asks the table for. */
export function firstWish(view: View, ids: readonly string[], names: Names): TableWish {
  const columns = columnsOf(view.columns, names, ids.length > 1);
  return { ...wishOf(view, ids), ...bothCells(cellsOf(firstColumns(columns)), needs(wholeColumns(view))), limit: FIRST_ROWS };
}
