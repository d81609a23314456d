/** The rows of the runs table: columns come as they are shown, and only what changed is read again. Knows no page. */
import { json, taken } from "./client";
import { loadColumns, type RunsTable } from "./runs";
import { bothCells, FIRST_ROWS, TABLE, tableQueryOf, type Cells, type TableWish } from "./table-wish";

export interface TableState {
  table: RunsTable | null;
  index: ReadonlyMap<string, number>;
  loading: boolean;
  fault: Error | null;
  /** grows with every change, as the table is changed in place */
  version: number;
}

type Wish = Omit<TableWish, keyof Cells>;
type Kind = keyof Cells;

const KINDS: readonly Kind[] = ["metrics", "params", "tags"];

export interface Wanted {
  /** the columns on screen, for the rows on screen; null stands for all rows */
  cells: Cells;
  rows: readonly number[] | null;
  /** columns wanted for every row: what is grouped by, what is plotted */
  full: Cells;
}

export interface Calls {
  table: (wish: TableWish, signal: AbortSignal) => Promise<RunsTable>;
  columns: (runs: readonly string[], cells: Cells) => Promise<RunsTable>;
  /** comes back when what is known so far is on screen */
  painted?: () => Promise<void>;
}

const CALLS: Calls = {
  table: (wish, signal) =>
    wish.limit <= FIRST_ROWS ? json(TABLE, { query: tableQueryOf(wish), signal }) : json(TABLE, { method: "POST", body: wish, signal }),
  columns: loadColumns,
  painted: () =>
    new Promise((resolve) => {
      requestAnimationFrame(() => setTimeout(resolve));
      // A tab in the background draws no frames.
      setTimeout(resolve, HIDDEN);
    }),
};

const NONE: Cells = { metrics: [], params: [], tags: [] };
/** Milliseconds over which wishes for columns, and for fresh cells, are gathered. */
const GATHER = 16;
const FRESHEN = 700;
const RELOAD = 1500;
const HIDDEN = 300;

export class TableStore {
  private state: TableState = { table: null, index: new Map(), loading: true, fault: null, version: 0 };
  private readonly listeners = new Set<() => void>();
  private readonly cellListeners = new Set<() => void>();
  private readonly calls: Calls;
  private wish: Wish | null = null;
  private shown = "";
  /** the wish whose first rows came with the page */
  private seeded = "";
  private wanted: Wanted = { cells: NONE, rows: [], full: NONE };
  private readonly marks = new Map<string, Uint8Array>();
  private abort: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private freshTimer: ReturnType<typeof setTimeout> | null = null;
  private reloadTimer: ReturnType<typeof setTimeout> | null = null;
  private stale = new Set<string>();

  constructor(calls: Calls = CALLS) {
    this.calls = calls;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /**
   * Hear of cells on screen that were filled. Who draws them by itself spares the page a drawing: as long as someone
   * listens here, the others are told of everything but that.
   */
  readonly followCells = (listener: () => void): (() => void) => {
    this.cellListeners.add(listener);
    return () => this.cellListeners.delete(listener);
  };

  readonly get = (): TableState => this.state;

  /** Start with the first rows, where they were asked for ahead and are here: then the first drawing has them. */
  seed(wish: Wish, cells: Cells): void {
    const text = taken(TABLE, tableQueryOf({ ...wish, ...cells, limit: FIRST_ROWS }));
    if (text !== null) {
      const table = JSON.parse(text) as RunsTable;
      this.state = { ...this.state, table, index: indexOf(table) };
      this.markAll(table);
      this.seeded = JSON.stringify(wish);
    }
  }

  /** Show other runs. The old ones stay until the new ones are here. */
  async load(wish: Wish): Promise<void> {
    this.wish = wish;
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    if (wish.experiment_ids.length === 0) {
      return;
    }
    const isNew = JSON.stringify(wish) !== this.shown;
    if (!this.state.loading) {
      this.become({ loading: true });
    }
    try {
      const inParts = isNew && wish.limit > FIRST_ROWS;
      if (!inParts || (await this.readFirst(wish, abort.signal))) {
        await this.read(wish, abort.signal, inParts);
      }
      this.shown = JSON.stringify(wish);
      this.become({ loading: false });
    } catch (cause) {
      if (!abort.signal.aborted) {
        this.become({ loading: false, fault: cause instanceof Error ? cause : new Error(String(cause)) });
      }
    }
  }

  /** Read the first rows with their cells, so that they are on screen before the rest has left the server; says whether there is more. */
  private async readFirst(wish: Wish, signal: AbortSignal): Promise<boolean> {
    if (this.seeded !== JSON.stringify(wish)) {
      const cells = bothCells(this.wanted.cells, this.wanted.full);
      const table = await this.calls.table({ ...wish, ...cells, limit: FIRST_ROWS }, signal);
      signal.throwIfAborted();
      this.marks.clear();
      this.markAll(table);
      this.become({ table, index: indexOf(table), fault: null });
    }
    this.seeded = "";
    if ((this.state.table?.next_page_token ?? null) === null) {
      this.askMissing();
      return false;
    }
    await this.calls.painted?.();
    signal.throwIfAborted();
    return true;
  }

  /** Read all rows; `goesOn` says that the cells already here are as fresh as the rows. */
  private async read(wish: Wish, signal: AbortSignal, goesOn: boolean): Promise<void> {
    const table = await this.calls.table({ ...wish, ...NONE }, signal);
    signal.throwIfAborted();
    const index = indexOf(table);
    const old = this.state.table;
    const marks = new Map(this.marks);
    this.marks.clear();
    if (old !== null) {
      // Cells of the old table serve until the new ones are here, so that nothing flickers.
      carry(old, table, index);
      if (goesOn) {
        this.carryMarks(old, marks, table, index);
      }
    }
    this.become({ table, index, fault: null });
    this.askMissing();
  }

  private carryMarks(old: RunsTable, marks: ReadonlyMap<string, Uint8Array>, table: RunsTable, index: ReadonlyMap<string, number>): void {
    const to = old.run_id.map((id) => index.get(id) ?? -1);
    for (const [name, before] of marks) {
      const after = new Uint8Array(table.run_id.length);
      to.forEach((at, from) => at >= 0 && (after[at] = before[from] ?? 0));
      this.marks.set(name, after);
    }
  }

  /** Every cell of a table that came with its cells was asked for. */
  private markAll(table: RunsTable): void {
    KINDS.forEach((kind) => Object.keys(table[kind]).forEach((key) => this.asked(table, kind, key).fill(1)));
  }

  /** Read the same runs again, soon: there are new ones, or some went. */
  reload(): void {
    this.reloadTimer ??= setTimeout(() => {
      this.reloadTimer = null;
      if (this.wish !== null) {
        void this.load(this.wish);
      }
    }, RELOAD);
  }

  /** Say which cells are on screen, and which columns are wanted whole; what is not here yet is read. */
  want(wanted: Wanted): void {
    this.wanted = wanted;
    this.askMissing();
  }

  /** Read columns of every run, for instance to save them. */
  async whole(cells: Cells): Promise<void> {
    const { table } = this.state;
    if (table !== null) {
      await this.fill(table, cells, allRows(table));
    }
  }

  /** Some runs changed: read their cells again. A run not shown here is none of our business. */
  touched(runs: readonly string[]): void {
    runs.filter((run) => this.state.index.has(run)).forEach((run) => this.stale.add(run));
    if (this.stale.size > 0) {
      this.freshTimer ??= setTimeout(() => {
        this.freshTimer = null;
        const stale = [...this.stale];
        this.stale.clear();
        void this.freshen(stale);
      }, FRESHEN);
    }
  }

  /** Stop what is under way. */
  close(): void {
    this.abort?.abort();
    [this.timer, this.freshTimer, this.reloadTimer].forEach((timer) => timer !== null && clearTimeout(timer));
    this.timer = null;
    this.freshTimer = null;
    this.reloadTimer = null;
  }

  private askMissing(): void {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      const { table } = this.state;
      if (table !== null) {
        const { cells, rows, full } = this.wanted;
        void this.fill(table, full, allRows(table));
        void this.fill(table, cells, rows ?? allRows(table), this.cellListeners);
      }
    }, GATHER);
  }

  /** Read those of some cells that were not asked for before. */
  private async fill(table: RunsTable, cells: Cells, rows: readonly number[], told = this.listeners): Promise<void> {
    const isMissing = (kind: Kind, key: string): boolean => {
      const mark = this.asked(table, kind, key);
      return rows.some((row) => mark[row] === 0);
    };
    const wanted: Cells = {
      metrics: cells.metrics.filter((key) => isMissing("metrics", key)),
      params: cells.params.filter((key) => isMissing("params", key)),
      tags: cells.tags.filter((key) => isMissing("tags", key)),
    };
    const marks = KINDS.flatMap((kind) => wanted[kind].map((key) => this.asked(table, kind, key)));
    const some = rows.filter((row) => marks.some((mark) => mark[row] === 0) && row < table.run_id.length);
    if (some.length === 0) {
      return;
    }
    setMarks(marks, some, 1);
    try {
      const found = await this.calls.columns(some.map((row) => table.run_id[row] ?? ""), wanted);
      // Another table may have come meanwhile; its own cells are asked for by then.
      if (this.state.table === table) {
        patch(table, found, this.state.index);
        blank(table, wanted, some);
        this.become({}, told.size > 0 ? told : this.listeners);
      }
    } catch (cause) {
      setMarks(marks, some, 0);
      this.become({ fault: cause instanceof Error ? cause : new Error(String(cause)) });
    }
  }

  /** Which rows of a column were asked for; makes the column, empty, where there is none. */
  private asked(table: RunsTable, kind: Kind, key: string): Uint8Array {
    const name = `${kind} ${key}`;
    let mark = this.marks.get(name);
    if (mark === undefined || mark.length !== table.run_id.length) {
      mark = new Uint8Array(table.run_id.length);
      this.marks.set(name, mark);
      makeColumn(table, kind, key);
    }
    return mark;
  }

  private async freshen(runs: readonly string[]): Promise<void> {
    const { table } = this.state;
    if (table === null) {
      return;
    }
    try {
      const found = await this.calls.columns(runs, {
        metrics: Object.keys(table.metrics),
        params: Object.keys(table.params),
        tags: Object.keys(table.tags),
      });
      if (this.state.table === table) {
        patch(table, found, this.state.index);
        this.become({});
      }
    } catch {
      // The next message tries again; what is shown stays as it is.
    }
  }

  private become(change: Partial<TableState>, told = this.listeners): void {
    this.state = { ...this.state, ...change, version: this.state.version + 1 };
    told.forEach((listener) => listener());
  }
}

function indexOf(table: RunsTable): Map<string, number> {
  return new Map(table.run_id.map((id, at) => [id, at]));
}

function setMarks(marks: readonly Uint8Array[], rows: readonly number[], value: 0 | 1): void {
  for (const mark of marks) {
    for (const row of rows) {
      mark[row] = value;
    }
  }
}

function allRows(table: RunsTable): number[] {
  return table.run_id.map((_, at) => at);
}

function holes<T>(size: number): T[] {
  const cells: T[] = [];
  cells.length = size;
  return cells;
}

/** Make a column whose cells are on the way: holes, which pages draw as such. */
function makeColumn(table: RunsTable, kind: Kind, key: string): void {
  const size = table.run_id.length;
  if (kind === "metrics") {
    table.metrics[key] ??= { last: holes(size), min: holes(size), max: holes(size), step: holes(size) };
  } else {
    table[kind][key] ??= holes(size);
  }
}

/** Cells of runs that were not found any more are empty, not on the way. */
function blank(table: RunsTable, cells: Cells, rows: readonly number[]): void {
  for (const row of rows) {
    for (const key of cells.metrics) {
      const held = table.metrics[key];
      if (held !== undefined && held.last[row] === undefined) {
        held.last[row] = held.min[row] = held.max[row] = held.step[row] = null;
      }
    }
    for (const kind of ["params", "tags"] as const) {
      for (const key of cells[kind]) {
        const held = table[kind][key];
        if (held !== undefined && held[row] === undefined) {
          held[row] = null;
        }
      }
    }
  }
}

/** Take over the cells of an older table for the runs that both hold. */
export function carry(old: RunsTable, table: RunsTable, index: ReadonlyMap<string, number>): void {
  const size = table.run_id.length;
  const to = old.run_id.map((id) => index.get(id) ?? -1);
  const moved = <T>(cells: readonly T[]): T[] => {
    const after = holes<T>(size);
    to.forEach((at, from) => {
      if (at >= 0 && cells[from] !== undefined) {
        after[at] = cells[from];
      }
    });
    return after;
  };
  for (const [key, column] of Object.entries(old.metrics)) {
    table.metrics[key] = { last: moved(column.last), min: moved(column.min), max: moved(column.max), step: moved(column.step) };
  }
  for (const kind of ["params", "tags"] as const) {
    for (const [key, column] of Object.entries(old[kind])) {
      table[kind][key] = moved(column);
    }
  }
}

/** Put fresh cells of a few runs in place. */
export function patch(table: RunsTable, found: RunsTable, index: ReadonlyMap<string, number>): void {
  const base = ["name", "user", "status", "lifecycle", "start_ms", "end_ms", "heard_ms"] as const;
  found.run_id.forEach((id, from) => {
    const to = index.get(id);
    if (to === undefined) {
      return;
    }
    for (const key of base) {
      (table[key] as unknown[])[to] = found[key][from];
    }
    for (const [key, column] of Object.entries(found.metrics)) {
      const held = table.metrics[key];
      if (held !== undefined) {
        held.last[to] = column.last[from] ?? null;
        held.min[to] = column.min[from] ?? null;
        held.max[to] = column.max[from] ?? null;
        held.step[to] = column.step[from] ?? null;
      }
    }
    for (const kind of ["params", "tags"] as const) {
      for (const [key, column] of Object.entries(found[kind])) {
        const held = table[kind][key];
        if (held !== undefined) {
          held[to] = column[from] ?? null;
        }
      }
    }
  });
}
