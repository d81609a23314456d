/** The table side of the runs page: rows, ticks, keys, what can be done to them. */
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo, useRef, useState, type ReactElement } from "react";

import { TAGS } from "../../api/runs";
import type { TableState, TableStore } from "../../api/table-store";
import { BulkBar, starAll } from "../../features/actions/bulk";
import { usePlainKeys } from "../../features/shell/keys";
import { cellAt, needs } from "../../features/table/cells";
import type { RowActions } from "../../features/table/grid-rows";
import { RunLine } from "../../features/table/run-line";
import { RunsTable } from "../../features/table/runs-table";
import { fileName, save } from "../../features/chart/export";
import { coloursOf } from "../../lib/colour";
import { columnTitle, parseColumn, type Column } from "../../lib/columns";
import { toCsv } from "../../lib/csv";
import { count } from "../../lib/format";
import { joinList, type View } from "../../lib/view";
import { yard } from "../../lib/yard-line";
import { Copy, ErrorCard, IconButton } from "../../ui/parts";
import type { Rows } from "./use-rows";
import type { Change } from "./use-view";
import { orderOf, wholeFilter } from "./wish";

interface Props {
  view: View;
  change: Change;
  state: TableState;
  store: TableStore;
  rows: Rows;
  columns: readonly string[];
  experiments: ReadonlyMap<string, string>;
  onSeen: (columns: string[], rows: number[]) => void;
  narrow: boolean;
  fault: Error | null;
}

const WIDTHS = "yard.widths";

function loadWidths(): Record<string, number> {
  try {
    return JSON.parse(localStorage.getItem(WIDTHS) ?? "{}") as Record<string, number>;
  } catch {
    return {};
  }
}

/** The sort after a click on a column: descending, ascending, as at the start. */
export function nextSort(sort: string, column: string): string {
  const first = parseColumn(column)?.kind === "param" ? column : `-${column}`;
  const second = first === column ? `-${column}` : column;
  return sort === first ? second : sort === second ? "-attribute:started" : first;
}

export function TablePane(props: Props): ReactElement {
  const { view, change, state, store, rows, columns } = props;
  const { table } = state;
  const navigate = useNavigate();
  const [cursor, setCursor] = useState(-1);
  const [widths] = useState(loadWidths);
  const last = useRef<number | null>(null);
  const idAt = useCallback(
    (index: number): string | null => {
      const row = rows.lines[index]?.row ?? null;
      return row === null ? null : (table?.run_id[row] ?? null);
    },
    [rows.lines, table],
  );
  const actions = useMemo<RowActions>(
    () => ({
      tick: (run, index, through) => {
        const from = through && last.current !== null ? last.current : index;
        const span = Array.from({ length: Math.abs(index - from) + 1 }, (_, at) => idAt(Math.min(from, index) + at));
        const runs = through ? span.filter((one): one is string => one !== null) : [run];
        last.current = index;
        change(({ ticked }) => {
          const on = !ticked.includes(run);
          return { ticked: on ? [...new Set([...ticked, ...runs])] : ticked.filter((one) => !runs.includes(one)) };
        });
      },
      hide: (run) => change(({ hidden }) => ({ hidden: hidden.includes(run) ? hidden.filter((one) => one !== run) : [...hidden, run] })),
      star: (run, on) => void starAll([run], on).then(() => store.touched([run])),
      fold: rows.fold,
      point: setCursor,
      open: (run) => void navigate({ to: "/app/runs/$runId", params: { runId: run }, search: {} }),
    }),
    [change, idAt, rows.fold, store, navigate],
  );
  const compare = (): void => {
    if (view.ticked.length > 1) {
      void navigate({ to: "/app/compare", search: { runs: joinList(view.ticked) } });
    }
  };
  const step = (by: number): void => {
    let next = cursor + by;
    while (rows.lines[next]?.row === null) {
      next += by;
    }
    if (rows.lines[next] !== undefined) {
      setCursor(next);
    }
  };
  usePlainKeys((key) => {
    const run = idAt(cursor);
    const starred = table !== null && run !== null && table.tags[TAGS.star]?.[state.index.get(run) ?? -1] === "1";
    const deeds: Record<string, () => void> = {
      j: () => step(1),
      k: () => step(-1),
      c: compare,
      "/": () => document.querySelector<HTMLInputElement>("[data-filter]")?.focus(),
    };
    if (run !== null) {
      deeds.x = () => actions.tick(run, cursor, false);
      deeds.s = () => actions.star(run, !starred);
      deeds.h = () => actions.hide(run);
      deeds.Enter = () => actions.open(run);
    }
    const deed = deeds[key];
    deed?.();
    return deed !== undefined;
  });
  const saveTable = async (): Promise<void> => {
    if (table !== null) {
      await store.whole(needs(columns));
      const parsed = columns.map(parseColumn).filter((column): column is Column => column !== null && column.kind !== "spark");
      const now = Date.now();
      const cells = table.run_id.map((id, row) => [id, table.name[row], ...parsed.map((column) => cellAt(table, column, row, now))]);
      save(fileName("runs", "csv"), new Blob([toCsv(["run_id", "run", ...parsed.map(columnTitle)], cells)], { type: "text/csv" }));
    }
  };
  const charted = useMemo(
    () => (rows.groups === null ? coloursOf(rows.charted) : new Map(rows.charted.map((run) => [run, rows.groups?.get(run)?.colour ?? "#888888"]))),
    [rows.charted, rows.groups],
  );
  const named = view.experiments.map((id) => props.experiments.get(id) ?? id);
  const line = yard.runs({ experiments: named, filter: wholeFilter(view), order: view.sort === "-attribute:started" ? [] : orderOf(view.sort), deleted: view.deleted });
  return (
    <>
      {view.ticked.length > 0 && <BulkBar runs={view.ticked} deleted={view.deleted} onCompare={compare} onClear={() => change({ ticked: [] })} />}
      {props.fault !== null && <ErrorCard title="The runs could not be read" error={props.fault} retry={() => store.reload()} />}
      {table !== null && table.run_id.length === 0 && (
        <p className="empty muted">{view.deleted ? "No deleted runs." : "No run matches the filter."}</p>
      )}
      {table !== null && table.run_id.length > 0 && !props.narrow && (
        <RunsTable
          table={table}
          version={state.version}
          lines={rows.lines}
          isWhole={!state.loading}
          columns={columns}
          widths={widths}
          sort={view.sort}
          ticked={rows.ticked}
          hidden={rows.hidden}
          charted={charted}
          folded={rows.folded}
          cursor={cursor}
          experiments={props.experiments}
          actions={actions}
          onSort={(column) => change({ sort: nextSort(view.sort, column) })}
          onWidths={(next) => localStorage.setItem(WIDTHS, JSON.stringify(next))}
          onOrder={(next) => change({ columns: next })}
          onSeen={props.onSeen}
          followCells={store.followCells}
          onTickAll={() => change({ ticked: view.ticked.length > 0 ? [] : table.run_id.slice(0, 500) })}
        />
      )}
      {table !== null && props.narrow && (
        <ul className="run-list">
          {rows.lines.slice(0, 300).map((one) =>
            one.row === null ? null : (
              <RunLine
                key={table.run_id[one.row]}
                id={table.run_id[one.row] ?? ""}
                row={one.row}
                table={table}
                metrics={columns.flatMap((id) => (id.startsWith("metric:") && !id.includes("@") ? [id.slice(7)] : [])).slice(0, 2)}
                isTicked={rows.ticked.has(table.run_id[one.row] ?? "")}
                isHidden={false}
                actions={actions}
              />
            ),
          )}
        </ul>
      )}
      <footer className="table-foot">
        <span className="muted">{count(table?.run_id.length ?? 0, "run")}</span>
        <button type="button" className="btn quiet small" aria-pressed={view.deleted} onClick={() => change({ deleted: !view.deleted, ticked: [] })}>
          Deleted
        </button>
        {!props.narrow && (
          <div className="yard-line" title="The same from a terminal">
            <code>{line}</code>
            <Copy text={line} label="Copy the command" />
          </div>
        )}
        <IconButton icon="download" label="Save the table as CSV" onClick={() => void saveTable()} />
      </footer>
    </>
  );
}
