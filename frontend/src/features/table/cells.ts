/** What stands in a cell of the runs table: by column and row, from columns as they came. Pure. */
import type { RunsTable } from "../../api/runs";
import { TAGS, type Cells } from "../../api/table-wish";
import { ATTRIBUTE_TAGS, parseColumn, type Column } from "../../lib/columns";
import { isLive } from "../../lib/states";

export type Cell = number | string | null;

/** The columns of the server that a column of the table is made from. */
export function needs(columns: readonly string[]): { metrics: string[]; params: string[]; tags: string[] } {
  const metrics = new Set<string>();
  const params = new Set<string>();
  const tags = new Set<string>();
  for (const id of columns) {
    const column = parseColumn(id);
    if (column?.kind === "metric") {
      metrics.add(column.key);
    } else if (column?.kind === "param") {
      params.add(column.key);
    } else if (column?.kind === "tag") {
      tags.add(column.key);
    } else if (column?.kind === "attribute") {
      const tag = ATTRIBUTE_TAGS[column.key];
      if (tag !== undefined) {
        tags.add(tag);
      }
    }
  }
  return { metrics: [...metrics], params: [...params], tags: [...tags] };
}

/** What the server is asked for to show some columns: theirs, and the star in every row. */
export function cellsOf(columns: readonly string[]): Cells {
  const wanted = needs(columns);
  return { ...wanted, tags: [...new Set([TAGS.star, ...wanted.tags])] };
}

/** How long a run took; up to now while it goes on. */
export function durationAt(table: RunsTable, row: number, now: number): number | null {
  const start = table.start_ms[row] ?? null;
  const end = table.end_ms[row] ?? (isLive(table.status[row] ?? "") ? now : null);
  return start === null || end === null ? null : end - start;
}

function attributeAt(table: RunsTable, key: string, row: number, now: number): Cell {
  const tag = ATTRIBUTE_TAGS[key];
  if (tag !== undefined) {
    return table.tags[tag]?.[row] ?? null;
  }
  switch (key) {
    case "status":
      return table.status[row] ?? null;
    case "started":
      return table.start_ms[row] ?? null;
    case "duration":
      return durationAt(table, row, now);
    case "user":
      return table.user[row] ?? null;
    case "experiment":
      return table.experiment_id[row] ?? null;
    default:
      return null;
  }
}

/** The value of a cell, undefined while its column is on the way. */
export function cellAt(table: RunsTable, column: Column, row: number, now: number): Cell | undefined {
  switch (column.kind) {
    case "attribute":
      return attributeAt(table, column.key, row, now);
    case "metric":
      return table.metrics[column.key]?.[column.stat][row];
    case "param":
      return table.params[column.key]?.[row];
    case "tag":
      return table.tags[column.key]?.[row];
    default:
      return null;
  }
}

/** A cell as a number, for charts: NaN where it is none. */
export function numberAt(table: RunsTable, column: Column, row: number, now: number): number {
  const value = cellAt(table, column, row, now);
  if (value === null || value === undefined || value === "") {
    return Number.NaN;
  }
  return typeof value === "number" ? value : Number(value);
}

/** Rows sorted by a column the server cannot sort by. */
export function sortedRows(table: RunsTable, column: Column, descending: boolean, now: number): number[] {
  const rows = table.run_id.map((_, at) => at);
  const sign = descending ? -1 : 1;
  return rows.sort((a, b) => {
    const left = cellAt(table, column, a, now) ?? null;
    const right = cellAt(table, column, b, now) ?? null;
    if (left === null || right === null) {
      return left === right ? a - b : left === null ? 1 : -1;
    }
    return (left < right ? -1 : left > right ? 1 : 0) * sign || a - b;
  });
}
