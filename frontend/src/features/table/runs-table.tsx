/** The runs table: rows and columns are drawn only where one looks. */
import { getCoreRowModel, useReactTable, type ColumnDef } from "@tanstack/react-table";
import { useVirtualizer, type Rect, type Virtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactElement } from "react";

import type { RunsTable as Table } from "../../api/runs";
import { columnWidth, parseColumn } from "../../lib/columns";
import type { Line } from "../../lib/grouping";
import { isNumeric } from "./cell-look";
import { FIXED, ROW, type Across } from "./grid-row";
import { GridRows, type RowActions } from "./grid-rows";
import { TableHead } from "./table-head";

export const HEAD = 32;

/** Rows and columns are read in blocks of this many. */
const BLOCK = 64;
const BROAD = 8;

const NOTHING = new Set<string>();
/** Taken for the size of the table until it is measured, so that the first drawing has rows. */
const SCREEN = { width: window.innerWidth - 200, height: window.innerHeight - 120 };

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
  charted: ReadonlySet<string>;
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
}

/** Tell the table's size, the first time once it is on screen: to measure it before would lay it out twice. */
function observeSize(instance: Virtualizer<HTMLDivElement, Element>, tell: (rect: Rect) => void): () => void {
  const element = instance.scrollElement;
  if (element === null) {
    return () => undefined;
  }
  let isFirst = true;
  const observer = new ResizeObserver(() => {
    const now = (): void => tell({ width: element.clientWidth, height: element.clientHeight });
    if (isFirst) {
      isFirst = false;
      setTimeout(now);
    } else {
      now();
    }
  });
  observer.observe(element);
  return () => observer.disconnect();
}

/** Where the table was scrolled to when an event told of it: read once for both ways, before either draws. */
let scrolled: { event: Event; top: number; left: number } | null = null;
/** Milliseconds after which a table that is not scrolled any more stands still. */
const STILL = 150;

/** Tell how far the table is scrolled. To read it after rows were drawn would lay the page out in the midst of a frame. */
function observeOffset(instance: Virtualizer<HTMLDivElement, Element>, tell: (offset: number, isScrolling: boolean) => void): () => void {
  const element = instance.scrollElement;
  if (element === null) {
    return () => undefined;
  }
  let timer: ReturnType<typeof setTimeout> | undefined;
  let told = 0;
  const hear = (event: Event): void => {
    if (scrolled?.event !== event) {
      scrolled = { event, top: element.scrollTop, left: element.scrollLeft };
    }
    const offset = instance.options.horizontal ? scrolled.left : scrolled.top;
    if (offset === told) {
      // It was scrolled the other way.
      return;
    }
    told = offset;
    tell(offset, true);
    clearTimeout(timer);
    timer = setTimeout(() => tell(offset, false), STILL);
  };
  element.addEventListener("scroll", hear, { passive: true });
  // A table that has just been made is not scrolled yet.
  tell(0, false);
  return () => {
    clearTimeout(timer);
    element.removeEventListener("scroll", hear);
  };
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
    scrollPaddingStart: HEAD,
  });
  const across = useVirtualizer({
    horizontal: true,
    count: leaves.length,
    getScrollElement: () => box.current,
    estimateSize: (at) => leaves[at]?.getSize() ?? 100,
    overscan: isSettled ? 2 : 0,
    initialRect: SCREEN,
    observeElementRect: observeSize,
    observeElementOffset: observeOffset,
    scrollPaddingStart: FIXED,
  });
  // oxlint-disable-next-line react/exhaustive-deps -- the sizing says when a size has changed
  const sizes = useMemo(() => leaves.map((leaf) => leaf.getSize()).join(), [leaves, sizing]);
  useEffect(() => across.measure(), [across, sizes]);
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
        headers={grid.getLeafHeaders()}
        width={width}
        sort={props.sort}
        allTicked={props.ticked.size > 0}
        columns={props.columns}
        onSort={props.onSort}
        onOrder={props.onOrder}
        onTickAll={props.onTickAll}
      />
      <div className="grid-body" style={{ height: rows.getTotalSize(), width }}>
        <div className="grid-names" ref={names} role="presentation" />
        <div className="grid-rows" ref={bodies} role="presentation" />
      </div>
    </div>
  );
}
