/** What a cell of the runs table looks like, in words: drawn by grid-rows, decided here. Pure. */
import type { RunsTable } from "../../api/runs";
import type { Column } from "../../lib/columns";
import { ago, count, duration, exact, full, short } from "../../lib/format";
import { summarise } from "../../lib/grouping";
import { isLive, shownStatus } from "../../lib/states";
import { cellAt, durationAt } from "./cells";

export interface Look {
  /** plain words, a state with its icon, a commit, a curve, nothing, or still on the way */
  kind: "text" | "state" | "code" | "spark" | "none" | "wait";
  text: string;
  /** the whole value, shown on hover */
  full: string;
}

const NONE: Look = { kind: "none", text: "—", full: "" };
const WAIT: Look = { kind: "wait", text: "", full: "" };
const EMPTY: Look = { kind: "text", text: "", full: "" };

/** Whether a column holds numbers, which stand to the right. */
export function isNumeric(column: Column): boolean {
  return column.kind === "metric" || (column.kind === "attribute" && column.key === "duration");
}

/** Whether what a column shows changes with the time. */
export function isTimed(column: Column): boolean {
  return column.kind === "attribute" && (column.key === "duration" || column.key === "started");
}

/** The look of a run's cell. */
export function lookOf(table: RunsTable, column: Column, row: number, names: ReadonlyMap<string, string>, now: number): Look {
  if (column.kind === "spark") {
    return { kind: "spark", text: table.run_id[row] ?? "", full: "" };
  }
  if (column.kind === "attribute") {
    return attributeLook(table, column, row, names, now);
  }
  const value = cellAt(table, column, row, now);
  if (value === undefined || value === null) {
    return value === undefined ? WAIT : NONE;
  }
  return { kind: "text", text: column.kind === "metric" ? short(value) : String(value), full: full(value) };
}

function attributeLook(table: RunsTable, column: Column, row: number, names: ReadonlyMap<string, string>, now: number): Look {
  switch (column.key) {
    case "started":
      return { kind: "text", text: ago(table.start_ms[row], now), full: exact(table.start_ms[row]) };
    case "duration":
      return { kind: "text", text: duration(durationAt(table, row, now)), full: isLive(table.status[row] ?? "") ? "so far" : "" };
    default:
  }
  const value = cellAt(table, column, row, now);
  if (value === undefined || value === null) {
    return NONE;
  }
  const text = String(value);
  switch (column.key) {
    case "status": {
      const heard = table.heard_ms[row];
      const shown = shownStatus(text, heard, now);
      return { kind: "state", text: shown, full: shown === text ? "" : `Nothing was logged for ${duration(now - (heard ?? now))}; its process may be gone.` };
    }
    case "experiment":
      return { kind: "text", text: names.get(text) ?? text, full: names.get(text) ?? text };
    case "commit":
      return { kind: "code", text: text.slice(0, 8), full: text };
    default:
      return { kind: "text", text: text.replace(/[#*`\n|]+/g, " ").trim(), full: text };
  }
}

/** The look of a cell in the head of a group: the mean, with least and greatest on hover. */
export function groupLook(table: RunsTable, column: Column, rows: readonly number[]): Look {
  const sum = isNumeric(column) ? summarise(rows.map((row) => cellAt(table, column, row, Number.NaN))) : null;
  if (sum === null) {
    return EMPTY;
  }
  const show = column.kind === "metric" ? short : duration;
  return { kind: "text", text: `ø ${show(sum.mean)}`, full: `mean ${show(sum.mean)}, min ${show(sum.min)}, max ${show(sum.max)} of ${count(sum.count, "run")}` };
}
