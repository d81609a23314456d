/** From the table as it came to the lines that are shown, and the runs that are charted. */
import { useMemo, useState } from "react";

import { cellAt, sortedRows } from "../../features/table/cells";
import type { TableState } from "../../api/table-store";
import { PALETTE } from "../../lib/colour";
import { orderBy, parseColumn, type Column } from "../../lib/columns";
import { groupRows, layOut, type Line } from "../../lib/grouping";
import { stateOf } from "../../lib/states";
import type { View } from "../../lib/view";

/** Runs charted when none is ticked, and at most. */
export const FIRST = 10;
export const MOST = 100;

export interface Rows {
  lines: Line[];
  charted: string[];
  /** every run of the table, for plots over parameters and metrics */
  shown: string[];
  folded: ReadonlySet<string>;
  fold: (id: string) => void;
  ticked: ReadonlySet<string>;
  hidden: ReadonlySet<string>;
  /** of grouped runs, the group of each that is charted: its name and its colour */
  groups: ReadonlyMap<string, { id: string; name: string; colour: string }> | null;
}

/** Runs of every group in turn, so that each of them is charted. */
function spread(lines: readonly Line[], table: TableState["table"]): string[] {
  const groups = new Map<string, string[]>();
  for (const line of lines) {
    if (line.row !== null && line.group !== null) {
      const members = groups.get(line.group.id) ?? [];
      members.push(table?.run_id[line.row] ?? "");
      groups.set(line.group.id, members);
    }
  }
  const longest = Math.max(0, ...[...groups.values()].map((members) => members.length));
  const found: string[] = [];
  for (let turn = 0; turn < longest && found.length < MOST; turn += 1) {
    for (const members of groups.values()) {
      const run = members[turn];
      if (run !== undefined) {
        found.push(run);
      }
    }
  }
  return found;
}

export function useRows(view: View, state: TableState): Rows {
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const { table, version } = state;
  const groupKey = view.group.join("\n");
  const order = useMemo(() => {
    if (table === null) {
      return [];
    }
    const column = parseColumn(view.sort.replace(/^-/, ""));
    const here = column !== null && orderBy(column) === null;
    return here ? sortedRows(table, column, view.sort.startsWith("-"), Date.now()) : table.run_id.map((_, at) => at);
    // oxlint-disable-next-line react/exhaustive-deps -- rows do not jump while cells are refreshed
  }, [table, view.sort]);
  const lines = useMemo<Line[]>(() => {
    const columns = groupKey === "" ? [] : groupKey.split("\n").map(parseColumn);
    const keys = columns.filter((column): column is Column => column !== null);
    if (table === null || keys.length === 0) {
      return order.map((row) => ({ group: null, row }));
    }
    const word = (column: Column, row: number): string => {
      const value = cellAt(table, column, row, 0);
      const text = value === null || value === undefined ? "—" : String(value);
      return column.kind === "attribute" && column.key === "status" ? stateOf(text).word : text;
    };
    const groups = groupRows(order.length, keys.map((column) => (at) => word(column, order[at] ?? 0)));
    return layOut(
      groups.map((group) => ({ ...group, rows: group.rows.map((at) => order[at] ?? 0) })),
      folded,
    );
    // oxlint-disable-next-line react/exhaustive-deps -- the version tells that the table was filled in place
  }, [table, order, groupKey, folded, groupKey === "" ? 0 : version]);
  const ticked = useMemo(() => new Set(view.ticked), [view.ticked]);
  const hidden = useMemo(() => new Set(view.hidden), [view.hidden]);
  const runs = useMemo(
    () => lines.flatMap((line) => (line.row === null ? [] : [table?.run_id[line.row] ?? ""])),
    [lines, table],
  );
  const charted = useMemo(() => {
    const chosen = ticked.size > 0 ? runs.filter((run) => ticked.has(run)) : groupKey === "" ? runs.slice(0, FIRST) : spread(lines, table);
    return chosen.filter((run) => !hidden.has(run)).slice(0, MOST);
  }, [runs, ticked, hidden, groupKey, lines, table]);
  const groups = useMemo(() => {
    const found = lines.flatMap((line) => (line.row === null || line.group === null ? [] : [[table?.run_id[line.row] ?? "", line.group] as const]));
    if (groupKey === "" || found.length === 0) {
      return null;
    }
    // Few groups: the first hues of the set are the furthest apart.
    const paint = new Map([...new Set(found.map(([, group]) => group.id))].toSorted().map((id, at) => [id, PALETTE[at % PALETTE.length] ?? PALETTE[0]]));
    return new Map(found.map(([run, group]) => [run, { id: group.id, name: group.values.join(", "), colour: paint.get(group.id) ?? "#888888" }]));
  }, [lines, table, groupKey]);
  const shown = useMemo(() => {
    const chosen = ticked.size > 1 ? runs.filter((run) => ticked.has(run)) : runs;
    return chosen.filter((run) => !hidden.has(run));
  }, [runs, ticked, hidden]);
  const fold = useMemo(
    () =>
      (id: string): void =>
        setFolded((before) => {
          const after = new Set(before);
          if (!after.delete(id)) {
            after.add(id);
          }
          return after;
        }),
    [],
  );
  return { lines, charted, shown, folded, fold, ticked, hidden, groups };
}
