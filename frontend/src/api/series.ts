/** Metric series for charts: asked for in batches, kept, and refreshed for the runs that grew. Knows no chart. */
import { json } from "./client";
import type { components } from "./types.gen";

export type Series = components["schemas"]["MetricSeries"];

export interface Want {
  runs: readonly string[];
  key: string;
  points: number;
  span: readonly [number, number] | null;
  orphans: boolean;
}

interface Query {
  run_ids: string[];
  keys: string[];
  points: number;
  first_step: number | null;
  last_step: number | null;
  orphans: boolean;
}

type Load = (query: Query) => Promise<{ series: Series[] }>;

/** Series asked for in one call at most; the server allows 500. */
const BATCH = 400;
/** Milliseconds over which wishes are gathered, and between two refreshes of live runs. */
const GATHER = 12;
const REFRESH = 900;
/** Series kept when no one looks at them any more. */
const KEEP = 4000;

const load: Load = (query) => json("/api/v1/series", { method: "POST", body: query });

function shelf(want: Pick<Want, "points" | "span" | "orphans">): string {
  return `${want.points}|${want.span === null ? "" : want.span.join("~")}|${want.orphans ? "o" : ""}`;
}

function place(run: string, key: string, on: string): string {
  return `${run}|${on}|${key}`;
}

export class SeriesStore {
  private readonly held = new Map<string, Series | null>();
  private readonly faults = new Map<string, string>();
  private readonly missing = new Set<string>();
  private readonly wants = new Map<symbol, { want: Want; changed: () => void }>();
  private stale = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | null = null;
  private refreshTimer: ReturnType<typeof setTimeout> | null = null;
  private readonly load: Load;

  constructor(how: Load = load) {
    this.load = how;
  }

  /** Ask for series and be told when they come or grow; returns how to stop. */
  watch(want: Want, changed: () => void): () => void {
    const id = Symbol(want.key);
    this.wants.set(id, { want, changed });
    this.ask(want, false);
    return () => this.wants.delete(id);
  }

  /** The series of a want that are here already, in the order of its runs. */
  get(want: Want): Series[] {
    const on = shelf(want);
    return want.runs
      .map((run) => this.held.get(place(run, want.key, on)))
      .filter((series): series is Series => series !== null && series !== undefined);
  }

  /** How a want stands: loading nothing yet, here, or failed with a sentence. */
  stateOf(want: Want): { loading: boolean; fault: string | null } {
    const on = shelf(want);
    const places = want.runs.map((run) => place(run, want.key, on));
    const fault = places.map((one) => this.faults.get(one)).find((one) => one !== undefined) ?? null;
    return { loading: places.some((one) => !this.held.has(one)) && fault === null, fault };
  }

  /** Some runs have new points: read again what is being looked at. */
  touched(runs: readonly string[]): void {
    runs.forEach((run) => this.stale.add(run));
    this.refreshTimer ??= setTimeout(() => {
      this.refreshTimer = null;
      const stale = this.stale;
      this.stale = new Set();
      for (const { want } of this.wants.values()) {
        const grown = want.runs.filter((run) => stale.has(run));
        if (grown.length > 0) {
          this.ask({ ...want, runs: grown }, true);
        }
      }
    }, REFRESH);
  }

  /** Read everything that is being looked at again, for instance after a lost link. */
  reload(): void {
    this.faults.clear();
    this.touched([...new Set([...this.wants.values()].flatMap(({ want }) => want.runs))]);
  }

  /** Drop everything, for instance when the team changes. */
  clear(): void {
    this.held.clear();
    this.faults.clear();
    this.missing.clear();
  }

  private ask(want: Want, again: boolean): void {
    const on = shelf(want);
    for (const run of want.runs) {
      const one = place(run, want.key, on);
      if (again || !this.held.has(one)) {
        this.missing.add(one);
      }
    }
    if (this.missing.size > 0) {
      this.timer ??= setTimeout(() => {
        this.timer = null;
        void this.flush();
      }, GATHER);
    }
  }

  private async flush(): Promise<void> {
    const wanted = new Set(this.missing);
    this.missing.clear();
    const shelves = new Map<string, { want: Want; runs: Set<string>; keys: Set<string> }>();
    for (const { want } of this.wants.values()) {
      const on = shelf(want);
      for (const run of want.runs) {
        if (wanted.has(place(run, want.key, on))) {
          // Runs that ask for other keys go in their own call, or the product would grow for nothing.
          const group = shelves.get(on) ?? { want, runs: new Set<string>(), keys: new Set<string>() };
          group.runs.add(run);
          group.keys.add(want.key);
          shelves.set(on, group);
        }
      }
    }
    await Promise.all(
      [...shelves.values()].flatMap(({ want, runs, keys }) =>
        cuts([...runs], [...keys]).map(([someRuns, someKeys]) => this.fetch(want, someRuns, someKeys)),
      ),
    );
  }

  private async fetch(want: Want, runs: string[], keys: string[]): Promise<void> {
    const on = shelf(want);
    const query: Query = {
      run_ids: runs,
      keys,
      points: want.points,
      first_step: want.span?.[0] ?? null,
      last_step: want.span?.[1] ?? null,
      orphans: want.orphans,
    };
    try {
      const { series } = await this.load(query);
      const found = new Map(series.map((one) => [place(one.run_id, one.key, on), one]));
      for (const run of runs) {
        for (const key of keys) {
          const one = place(run, key, on);
          this.held.delete(one);
          this.held.set(one, found.get(one) ?? null);
          this.faults.delete(one);
        }
      }
      this.forget();
    } catch (cause) {
      const sentence = cause instanceof Error ? cause.message : String(cause);
      runs.forEach((run) => keys.forEach((key) => this.faults.set(place(run, key, on), sentence)));
    }
    this.tell(new Set(keys));
  }

  private forget(): void {
    const surplus = this.held.size - KEEP;
    if (surplus > 0) {
      const wanted = new Set(
        [...this.wants.values()].flatMap(({ want }) => want.runs.map((run) => place(run, want.key, shelf(want)))),
      );
      [...this.held.keys()].filter((one) => !wanted.has(one)).slice(0, surplus).forEach((one) => this.held.delete(one));
    }
  }

  private tell(keys: ReadonlySet<string>): void {
    for (const { want, changed } of Array.from(this.wants.values())) {
      if (keys.has(want.key)) {
        changed();
      }
    }
  }
}

/** Cut runs x keys into calls of at most BATCH series. */
export function cuts(runs: readonly string[], keys: readonly string[]): [string[], string[]][] {
  const found: [string[], string[]][] = [];
  for (let at = 0; at < runs.length; at += BATCH) {
    const some = runs.slice(at, at + BATCH);
    const width = Math.max(1, Math.floor(BATCH / some.length));
    for (let from = 0; from < keys.length; from += width) {
      found.push([some, keys.slice(from, from + width)]);
    }
  }
  return found;
}

/** The series of this tab. */
export const seriesStore = new SeriesStore();
