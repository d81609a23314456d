// @vitest-environment node
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import type { RunsTable } from "./runs";
import { cuts, SeriesStore, type Series, type Want } from "./series";
import { TableStore } from "./table-store";
import { ask } from "./client";
import { FIRST_ROWS, TABLE, tableQueryOf } from "./table-wish";
import { spaced, staleBy } from "./live";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const series = (run: string, key: string, last: number): Series => ({ run_id: run, key, width: 1, step: [0], time_ms: [0], last: [last], min: [last], max: [last], mean: [last], count: [1] });
const want = (runs: string[], key: string): Want => ({ runs, key, points: 100, span: null, orphans: false });

describe("series", () => {
  test("wishes of many panels go out as one call", async () => {
    const load = vi.fn(async ({ run_ids, keys }: { run_ids: string[]; keys: string[] }) => ({ series: run_ids.flatMap((run) => keys.map((key) => series(run, key, 1))) }));
    const store = new SeriesStore(load);
    const changed = vi.fn();
    store.watch(want(["a", "b"], "loss"), changed);
    store.watch(want(["a", "b"], "acc"), changed);
    await vi.advanceTimersByTimeAsync(50);
    expect(load).toHaveBeenCalledTimes(1);
    expect(store.get(want(["a", "b"], "acc")).map((one) => one.run_id)).toEqual(["a", "b"]);
    expect(changed).toHaveBeenCalledTimes(2);
  });

  test("only runs that grew are read again, and only while someone looks", async () => {
    let value = 1;
    const load = vi.fn(async ({ run_ids, keys }: { run_ids: string[]; keys: string[] }) => ({ series: run_ids.flatMap((run) => keys.map((key) => series(run, key, value))) }));
    const store = new SeriesStore(load);
    const stop = store.watch(want(["a", "b"], "loss"), () => undefined);
    await vi.advanceTimersByTimeAsync(50);
    value = 2;
    store.touched(["b", "z"]);
    await vi.advanceTimersByTimeAsync(1500);
    expect(load.mock.calls[1]?.[0].run_ids).toEqual(["b"]);
    expect(store.get(want(["a", "b"], "loss")).map((one) => one.last[0])).toEqual([1, 2]);
    stop();
    store.touched(["a"]);
    await vi.advanceTimersByTimeAsync(1500);
    expect(load).toHaveBeenCalledTimes(2);
  });

  test("a fault is told and a metric that a run lacks is not asked for twice", async () => {
    const failing = new SeriesStore(() => Promise.reject(new Error("no")));
    failing.watch(want(["a"], "loss"), () => undefined);
    await vi.advanceTimersByTimeAsync(50);
    expect(failing.stateOf(want(["a"], "loss"))).toEqual({ loading: false, fault: "no" });
    const load = vi.fn(async () => ({ series: [] }));
    const store = new SeriesStore(load);
    store.watch(want(["a"], "loss"), () => undefined);
    await vi.advanceTimersByTimeAsync(50);
    store.watch(want(["a"], "loss"), () => undefined);
    await vi.advanceTimersByTimeAsync(50);
    expect(load).toHaveBeenCalledTimes(1);
    expect(store.get(want(["a"], "loss"))).toEqual([]);
  });

  test("large wishes are cut to what the server takes", () => {
    const runs = Array.from({ length: 450 }, (_, at) => String(at));
    const parts = cuts(runs, ["a", "b"]);
    expect(parts.every(([some, keys]) => some.length * keys.length <= 400)).toBe(true);
    expect(parts.reduce((sum, [some, keys]) => sum + some.length * keys.length, 0)).toBe(900);
  });
});

const table = (ids: string[]): RunsTable => ({
  run_id: ids,
  experiment_id: ids.map(() => "1"),
  name: ids,
  user: ids,
  status: ids.map(() => "RUNNING"),
  lifecycle: ids.map(() => "active"),
  start_ms: ids.map(() => 0),
  end_ms: ids.map(() => null),
  heard_ms: ids.map(() => null),
  metrics: {},
  params: {},
  tags: {},
  next_page_token: null,
});
const wish = { experiment_ids: ["1"], filter: "", order_by: [], view: "ACTIVE_ONLY" as const, limit: 10 };

describe("the runs table", () => {
  const NONE = { metrics: [], params: [], tags: [] };
  const answer = async (ids: readonly string[]): Promise<RunsTable> => ({ ...table([...ids]), params: { lr: ids.map((id) => `lr of ${id}`) } });

  test("cells are read once they are looked at, and only those", async () => {
    const columns = vi.fn(answer);
    const store = new TableStore({ table: async () => table(["a", "b", "c"]), columns });
    await store.load(wish);
    const cells = { ...NONE, params: ["lr"] };
    store.want({ cells, rows: [0, 1], full: NONE });
    await vi.advanceTimersByTimeAsync(50);
    store.want({ cells, rows: [1, 2], full: NONE });
    await vi.advanceTimersByTimeAsync(50);
    store.want({ cells, rows: [0, 2], full: NONE });
    await vi.advanceTimersByTimeAsync(50);
    expect(columns.mock.calls.map(([ids]) => ids)).toEqual([["a", "b"], ["c"]]);
    expect(store.get().table?.params.lr).toEqual(["lr of a", "lr of b", "lr of c"]);
  });

  test("cells that came are told to who draws them alone, and to all where nobody does", async () => {
    const store = new TableStore({ table: async () => table(["a", "b"]), columns: answer });
    const page = vi.fn();
    const cells = vi.fn();
    store.subscribe(page);
    const stop = store.followCells(cells);
    await store.load(wish);
    page.mockClear();
    store.want({ cells: { ...NONE, params: ["lr"] }, rows: [0], full: NONE });
    await vi.advanceTimersByTimeAsync(50);
    expect([cells.mock.calls.length, page.mock.calls.length, store.get().table?.params.lr?.[0]]).toEqual([1, 0, "lr of a"]);
    stop();
    store.want({ cells: { ...NONE, params: ["lr"] }, rows: [0, 1], full: NONE });
    await vi.advanceTimersByTimeAsync(50);
    expect([cells.mock.calls.length, page.mock.calls.length]).toEqual([1, 1]);
  });

  test("a column that is grouped by is read for every row", async () => {
    const store = new TableStore({ table: async () => table(["a", "b", "c"]), columns: answer });
    await store.load(wish);
    store.want({ cells: NONE, rows: [0], full: { ...NONE, params: ["lr"] } });
    await vi.advanceTimersByTimeAsync(50);
    expect(store.get().table?.params.lr).toHaveLength(3);
    await store.whole({ ...NONE, tags: ["team"] });
    expect(store.get().table?.tags.team).toEqual([null, null, null]);
  });

  test("a reloaded table keeps its cells until fresh ones come", async () => {
    let ids = ["a", "b"];
    const store = new TableStore({ table: async () => table(ids), columns: answer });
    await store.load(wish);
    store.want({ cells: { ...NONE, params: ["lr"] }, rows: null, full: NONE });
    await vi.advanceTimersByTimeAsync(50);
    ids = ["new", "b"];
    await store.load(wish);
    expect(store.get().table?.params.lr).toEqual([undefined, "lr of b"]);
    await vi.advanceTimersByTimeAsync(50);
    expect(store.get().table?.params.lr).toEqual(["lr of new", "lr of b"]);
  });

  test("the first rows of a large table come before the rest; a small one is read once", async () => {
    const sizes: number[] = [];
    const read = vi.fn(async ({ limit }: { limit: number }) => ({ ...table(limit === FIRST_ROWS ? ["a"] : ["a", "b"]), next_page_token: limit === FIRST_ROWS ? "more" : null }));
    const store = new TableStore({ table: read, columns: answer });
    store.subscribe(() => sizes.push(store.get().table?.run_id.length ?? 0));
    await store.load({ ...wish, limit: 20_000 });
    expect(read.mock.calls.map(([{ limit }]) => limit)).toEqual([FIRST_ROWS, 20_000]);
    expect(sizes).toContain(1);
    expect(store.get()).toMatchObject({ loading: false, table: { run_id: ["a", "b"] } });
    const once = vi.fn(async () => table(["a"]));
    await new TableStore({ table: once, columns: answer }).load({ ...wish, limit: 20_000 });
    expect(once).toHaveBeenCalledTimes(1);
  });

  test("the first rows come with their cells, which are not read again when the rest is here", async () => {
    const read = vi.fn(async ({ limit, params }: { limit: number; params: readonly string[] }) => {
      const ids = limit === FIRST_ROWS ? ["a", "b"] : ["new", "a", "b", "c"];
      const found = { ...table(ids), next_page_token: limit === FIRST_ROWS ? "more" : null };
      return { ...found, params: Object.fromEntries(params.map((key) => [key, ids.map((id) => `${key} of ${id}`)])) };
    });
    const columns = vi.fn(answer);
    const painted = vi.fn(async () => undefined);
    const store = new TableStore({ table: read, columns, painted });
    store.want({ cells: { ...NONE, params: ["lr"] }, rows: [0, 1, 2, 3], full: NONE });
    await store.load({ ...wish, limit: 20_000 });
    expect(painted).toHaveBeenCalledTimes(1);
    expect(store.get().table?.params.lr?.slice(1, 3)).toEqual(["lr of a", "lr of b"]);
    await vi.advanceTimersByTimeAsync(50);
    expect(columns.mock.calls.map(([ids]) => ids)).toEqual([["new", "c"]]);
  });

  test("first rows that came with the page are there before anything is read, and are not read again", async () => {
    const seed = { ...wish, ...NONE, params: ["lr"], limit: FIRST_ROWS };
    vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ ...table(["a"]), params: { lr: ["1"] }, next_page_token: "more" })));
    await ask(TABLE, tableQueryOf(seed));
    const read = vi.fn(async () => table(["a", "b"]));
    const store = new TableStore({ table: read, columns: answer });
    store.seed({ ...wish, limit: 20_000 }, { ...NONE, params: ["lr"] });
    expect(store.get()).toMatchObject({ loading: true, table: { run_id: ["a"], params: { lr: ["1"] } } });
    await store.load({ ...wish, limit: 20_000 });
    expect(read).toHaveBeenCalledTimes(1);
    expect(store.get()).toMatchObject({ loading: false, table: { run_id: ["a", "b"] } });
    const other = new TableStore({ table: read, columns: answer });
    other.seed({ ...wish, limit: 20_000 }, { ...NONE, params: ["lr"] });
    expect(other.get().table).toBeNull();
    vi.unstubAllGlobals();
  });

  test("a run that changed is patched in place", async () => {
    const columns = async (ids: readonly string[]): Promise<RunsTable> => ({ ...table([...ids]), status: ids.map(() => "FINISHED") });
    const store = new TableStore({ table: async () => table(["a", "b"]), columns });
    await store.load(wish);
    const before = store.get().version;
    store.touched(["b", "unknown"]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(store.get().table?.status).toEqual(["RUNNING", "FINISHED"]);
    expect(store.get().version).toBeGreaterThan(before);
  });

  test("a fault leaves what was shown, and says why", async () => {
    let isBroken = false;
    const store = new TableStore({ table: async () => (isBroken ? Promise.reject(new Error("bad filter")) : table(["a"])), columns: async () => table([]) });
    await store.load(wish);
    isBroken = true;
    await store.load({ ...wish, filter: "x" });
    expect(store.get().fault?.message).toBe("bad filter");
    expect(store.get().table?.run_id).toEqual(["a"]);
  });
});

describe("live refreshes", () => {
  test("come at once, then not more often than they should", () => {
    const act = vi.fn();
    const soon = spaced(act, 1000);
    soon();
    soon();
    soon();
    expect(act).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(1000);
    expect(act).toHaveBeenCalledTimes(2);
    vi.advanceTimersByTime(5000);
    expect(act).toHaveBeenCalledTimes(2);
  });

  test("an event makes stale what it is about", () => {
    expect(staleBy({ kind: "model_alias.set" })).toEqual(["models", "model", "versions"]);
    expect(staleBy({ kind: "run.created" })).toContain("experiments");
    expect(staleBy({ kind: "token.created" })).toEqual([]);
    expect([staleBy({ kind: "artifact.written" }), staleBy({ kind: "experiment.created" }), staleBy({ kind: "run.logged" })]).toEqual([["files"], ["experiments", "experiment"], ["names"]]);
  });
});
