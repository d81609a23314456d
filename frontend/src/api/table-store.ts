/** The rows of the runs table: columns come as they are shown, and only what changed is read again. Knows no page. */
import { json } from "./client";
import { loadColumns, type Cells, type RunsTable, type TableWish } from "./runs";

export interface TableState {
  table: RunsTable | null;
  index: ReadonlyMap<string, number>;
  loading: boolean;
  fault: Error | null;
  /** grows with every change, as the table is changed in place */
  version: number;
}

type Wish = Omit<TableWish, keyof Cells>;

export interface Calls {
  table: (wish: TableWish, signal: AbortSignal) => Promise<RunsTable>;
  columns: (runs: readonly string[], cells: Cells) => Promise<RunsTable>;
}

const CALLS: Calls = {
  table: (wish, signal) => json("/api/v1/runs/table", { method: "POST", body: wish, signal }),
  columns: loadColumns,
};

const NONE: Cells = { metrics: [], params: [], tags: [] };
/** Milliseconds over which wishes for columns, and for fresh cells, are gathered. */
const GATHER = 16;
const FRESHEN = 700;
const RELOAD = 1500;

export class TableStore {
  private state: TableState = { table: null, index: new Map(), loading: true, fault: null, version: 0 };
  private readonly listeners = new Set<() => void>();
  private readonly calls: Calls;
  private wish: Wish | null = null;
  private wanted: Cells = NONE;
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

  readonly get = (): TableState => this.state;

  /** Show other runs. The old ones stay until the new ones are here. */
  async load(wish: Wish): Promise<void> {
    this.wish = wish;
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    if (wish.experiment_ids.length === 0) {
      return;
    }
    this.become({ loading: true });
    const cells = this.wanted;
    try {
      const table = await this.calls.table({ ...wish, ...cells }, abort.signal);
      if (!abort.signal.aborted) {
        this.become({ table, index: indexOf(table), loading: false, fault: null });
        this.askMissing();
      }
    } catch (cause) {
      if (!abort.signal.aborted) {
        this.become({ loading: false, fault: cause instanceof Error ? cause : new Error(String(cause)) });
      }
    }
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

  /** Say which columns are on screen; those not here yet are read. */
  want(cells: Cells): void {
    this.wanted = cells;
    this.askMissing();
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
    const { table } = this.state;
    if (table === null || this.timer !== null) {
      return;
    }
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.fill();
    }, GATHER);
  }

  private async fill(): Promise<void> {
    const { table } = this.state;
    if (table === null) {
      return;
    }
    const cells: Cells = {
      metrics: this.wanted.metrics.filter((key) => !(key in table.metrics)),
      params: this.wanted.params.filter((key) => !(key in table.params)),
      tags: this.wanted.tags.filter((key) => !(key in table.tags)),
    };
    if (cells.metrics.length + cells.params.length + cells.tags.length === 0 || table.run_id.length === 0) {
      return;
    }
    try {
      const found = await this.calls.columns(table.run_id, cells);
      // Another table may have come meanwhile; its own cells are asked for by then.
      if (this.state.table === table) {
        addColumns(table, found);
        this.become({});
      }
    } catch (cause) {
      this.become({ fault: cause instanceof Error ? cause : new Error(String(cause)) });
    }
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

  private become(change: Partial<TableState>): void {
    this.state = { ...this.state, ...change, version: this.state.version + 1 };
    this.listeners.forEach((listener) => listener());
  }
}

function indexOf(table: RunsTable): Map<string, number> {
  return new Map(table.run_id.map((id, at) => [id, at]));
}

/** Add columns that were read for the same runs; rows that went meanwhile stay empty. */
export function addColumns(table: RunsTable, found: RunsTable): void {
  const same = found.run_id.length === table.run_id.length;
  const from = new Map(found.run_id.map((id, at) => [id, at]));
  const spread = <T>(cells: readonly T[]): T[] =>
    same ? [...cells] : table.run_id.map((id) => cells[from.get(id) ?? -1] ?? (null as T));
  for (const [key, column] of Object.entries(found.metrics)) {
    table.metrics[key] = {
      last: spread(column.last),
      min: spread(column.min),
      max: spread(column.max),
      step: spread(column.step),
    };
  }
  for (const [key, column] of Object.entries(found.params)) {
    table.params[key] = spread(column);
  }
  for (const [key, column] of Object.entries(found.tags)) {
    table.tags[key] = spread(column);
  }
}

/** Put fresh cells of a few runs in place. */
export function patch(table: RunsTable, found: RunsTable, index: ReadonlyMap<string, number>): void {
  const base = ["name", "user", "status", "lifecycle", "start_ms", "end_ms"] as const;
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
