/** The runs table: rows and columns are drawn only where one looks. */
import { getCoreRowModel, useReactTable, type ColumnDef } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactElement } from "react";

import type { RunsTable as Table } from "../../api/runs";
import { columnWidth, parseColumn } from "../../lib/columns";
import type { Line } from "../../lib/grouping";
import { isNumeric } from "./cell-look";
import { FIXED, ROW, type Across } from "./grid-row";
import { GridRows, type RowActions } from "./grid-rows";
import { columnsInBlocks, observeOffset, observeSize, scrollGrid } from "./grid-watch";
import { TableHead } from "./table-head";

export const HEAD = 32;

/** Rows and columns are read in blocks of this many. */
const BLOCK = 64;
const BROAD = 8;
/** Columns are drawn in blocks of this many. */
const ACROSS = 4;

const NOTHING = new Set<string>();
/** Taken for the size of the table until it is measured, so that the first drawing has rows. */
const SCREEN = { width: window.innerWidth - 200 - FIXED, height: window.innerHeight - 120 };

interface Props {
  table: Table;
  version: number;
  lines: readonly Line[];
  /** whether these are all the rows there are */
  isWhole: boolean;
  columns: readonly string[];
  widths: Readonly<Record<string, number>>;
  sort: string;
  ticked: ReadonlySet<string>;
  hidden: ReadonlySet<string>;
  charted: ReadonlyMap<string, string>;
  folded?: ReadonlySet<string>;
  cursor: number;
  experiments: ReadonlyMap<string, string>;
  actions: RowActions;
  onSort: (column: string) => void;
  onWidths: (widths: Record<string, number>) => void;
  onOrder: (columns: string[]) => void;
  /** told which columns and rows are on screen, so that only those are read */
  onSeen: (columns: string[], rows: number[]) => void;
  onTickAll: () => void;
  /** hears of cells that were filled in place, which are then drawn without the page around them */
  followCells: (listener: () => void) => () => void;
}

export function RunsTable(props: Props): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const [sizing, setSizing] = useState<Record<string, number>>({ ...props.widths });
  const columnDefs = useMemo<ColumnDef<Line>[]>(
    () =>
      props.columns.flatMap((id) => {
        const column = parseColumn(id);
        return column === null ? [] : [{ id, size: columnWidth(column), minSize: 48, maxSize: 900 }];
      }),
    [props.columns],
  );
  const { onWidths } = props;
  const grid = useReactTable<Line>({
    data: props.lines as Line[],
    columns: columnDefs,
    getCoreRowModel: getCoreRowModel(),
    columnResizeMode: "onChange",
    state: { columnSizing: sizing },
    onColumnSizingChange: (change) => {
      setSizing((before) => {
        const after = typeof change === "function" ? change(before) : change;
        queueMicrotask(() => onWidths(after));
        return after;
      });
    },
  });
  const leaves = grid.getVisibleLeafColumns();
  // Heads of all columns are made when an edge is first dragged: hundreds of them are none of the first drawing's business.
  const resize = useCallback(
    (id: string, event: unknown) => {
      const header = grid.getLeafHeaders().find((one) => one.column.id === id);
      header?.getResizeHandler()(event);
    },
    [grid],
  );
  // Rows and columns beyond the edges are drawn once those within are on screen.
  const isSettled = props.isWhole;
  const rows = useVirtualizer({
    count: props.lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: isSettled ? 6 : 0,
    initialRect: SCREEN,
    observeElementRect: observeSize,
    observeElementOffset: observeOffset,
    scrollToFn: scrollGrid,
    useFlushSync: false,
    scrollPaddingStart: HEAD,
  });
  const [inBlocks] = useState(() => columnsInBlocks(ACROSS));
  const across = useVirtualizer({
    horizontal: true,
    count: leaves.length,
    getScrollElement: () => box.current,
    estimateSize: (at) => leaves[at]?.getSize() ?? 100,
    overscan: isSettled ? 1 : 0,
    rangeExtractor: inBlocks,
    initialRect: SCREEN,
    observeElementRect: observeSize,
    observeElementOffset: observeOffset,
    scrollToFn: scrollGrid,
    useFlushSync: false,
  });
  // oxlint-disable-next-line react/exhaustive-deps -- the sizing says when a size has changed
  const sizes = useMemo(() => leaves.map((leaf) => leaf.getSize()).join(), [leaves, sizing]);
  const measured = useRef(sizes);
  useEffect(() => {
    if (measured.current !== sizes) {
      measured.current = sizes;
      across.measure();
    }
  }, [across, sizes]);
  useEffect(() => {
    if (props.cursor >= 0) {
      rows.scrollToIndex(props.cursor, { align: "auto" });
    }
  }, [props.cursor, rows]);

  const seen = across.getVirtualItems();
  const first = seen[0]?.index ?? 0;
  const last = seen[seen.length - 1]?.index ?? -1;
  const { onSeen, columns, lines } = props;
  const visible = rows.getVirtualItems();
  const from = visible[0]?.index ?? 0;
  const to = visible[visible.length - 1]?.index ?? -1;
  // In steps, so that a wheel's turn does not ask anew for each row and column.
  const top = Math.floor(from / BLOCK) * BLOCK;
  const bottom = Math.ceil((to + 1) / BLOCK) * BLOCK;
  const left = Math.floor(first / BROAD) * BROAD;
  const right = Math.ceil((last + 1) / BROAD) * BROAD;
  useEffect(() => {
    const near = lines.slice(Math.max(0, top - BLOCK), bottom + BLOCK);
    onSeen(
      columns.slice(left, right),
      near.flatMap((line) => (line.row === null ? [] : [line.row])),
    );
  }, [onSeen, columns, lines, left, right, top, bottom]);

  const places = useMemo<Across[]>(
    () =>
      seen.flatMap((item) => {
        const id = leaves[item.index]?.id ?? "";
        const column = parseColumn(id);
        return column === null ? [] : [{ id, column, at: item.index, start: item.start, size: item.size, numeric: isNumeric(column) }];
      }),
    [seen, leaves],
  );
  const names = useRef<HTMLDivElement>(null);
  const bodies = useRef<HTMLDivElement>(null);
  const drawn = useRef<GridRows | null>(null);
  useLayoutEffect(() => {
    if (names.current !== null && bodies.current !== null) {
      drawn.current ??= new GridRows(names.current, bodies.current);
      const { table, version, cursor, ticked, hidden, charted, folded = NOTHING, experiments } = props;
      drawn.current.draw({ table, version, lines, first: from, last: to, columns: places, cursor, ticked, hidden, charted, folded, experiments, now: Date.now() }, props.actions);
    }
  });
  const { followCells } = props;
  useEffect(() => followCells(() => drawn.current?.refill()), [followCells]);
  useEffect(
    () => () => {
      drawn.current?.close();
      drawn.current = null;
    },
    [],
  );
  const width = FIXED + across.getTotalSize();
  return (
    // A table is too much for a table element here: rows and columns come and go while one scrolls.
    <div
      ref={box}
      className="grid"
      role="grid"
      aria-label="Runs"
      // -1 stands for a number that is not known yet.
      aria-rowcount={props.isWhole ? props.lines.length + 1 : -1}
      aria-colcount={leaves.length + 1}
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a grid takes the focus, to be scrolled with keys
      tabIndex={0}
    >
      <TableHead
        seen={seen}
        leaves={leaves}
        width={width}
        sort={props.sort}
        allTicked={props.ticked.size > 0}
        columns={props.columns}
        onSort={props.onSort}
        onOrder={props.onOrder}
        onResize={resize}
        onTickAll={props.onTickAll}
      />
      <div className="grid-body" style={{ height: rows.getTotalSize(), width }}>
        <div className="grid-names" ref={names} role="presentation" />
        <div className="grid-rows" ref={bodies} role="presentation" />
      </div>
    </div>
  );
}
