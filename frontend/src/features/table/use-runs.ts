/** Rows for a page: asks for what is shown, follows the stream. */
import { useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from "react";

import { bothCells, type Cells, type TableWish } from "../../api/table-wish";
import { isPoints, stream } from "../../api/stream";
import { TableStore, type TableState } from "../../api/table-store";
import { cellsOf, needs } from "./cells";

const GONE = new Set(["run.created", "run.deleted", "run.restored"]);

/** What of a table is on screen. */
interface Seen {
  columns: readonly string[];
  rows: readonly number[] | null;
}

/** Tell what has come on screen. */
export type See = (columns: readonly string[], rows: readonly number[]) => void;

/**
 * The runs of a view with some columns: of the given rows, or of all where none are given, until `see` tells what is
 * on screen; that is read without drawing the page again. Columns that are grouped by or plotted are read whole.
 */
export function useRuns(
  wish: Omit<TableWish, keyof Cells>,
  columns: readonly string[],
  rows: readonly number[] | null = null,
  whole: readonly string[] = [],
): { state: TableState; store: TableStore; see: See } {
  const store = useMemo(() => {
    const made = new TableStore();
    made.seed(wish, bothCells(cellsOf(columns), needs(whole)));
    return made;
    // oxlint-disable-next-line react/exhaustive-deps -- what came with the page is of use to its first drawing alone
  }, []);
  const state = useSyncExternalStore(store.subscribe, store.get);
  const columnsKey = columns.join("\n");
  const wholeKey = whole.join("\n");
  const seen = useRef<Seen | null>(null);
  const want = useCallback(
    (first: Seen) => {
      const { columns: shown, rows: near } = seen.current ?? first;
      store.want({ cells: cellsOf(shown), rows: near, full: needs(wholeKey.split("\n")) });
    },
    [store, wholeKey],
  );
  useEffect(() => want({ columns: columnsKey.split("\n"), rows }), [want, columnsKey, rows]);
  const see = useCallback<See>(
    (shown, near) => {
      seen.current = { columns: shown, rows: near };
      want(seen.current);
    },
    [want],
  );
  const wishKey = JSON.stringify(wish);
  useEffect(() => {
    void store.load(JSON.parse(wishKey) as typeof wish);
  }, [store, wishKey]);
  useEffect(() => {
    const stops = [
      stream.listen((messages) => {
        for (const message of messages) {
          if (isPoints(message)) {
            store.touched(message.runs);
          } else if (GONE.has(message.kind)) {
            store.reload();
          } else if (message.subject === "run") {
            store.touched([message.subject_id]);
          }
        }
      }),
      stream.onReload(() => store.reload()),
    ];
    return () => {
      stops.forEach((stop) => stop());
      store.close();
    };
  }, [store]);
  return { state, store, see };
}
