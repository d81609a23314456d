/** The rows that are drawn without React: what they show, how they are used again, and what a click does. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import type { RunsTable } from "../../api/runs";
import { parseColumn } from "../../lib/columns";
import { groupRows, layOut, type Line } from "../../lib/grouping";
import { groupLook, isNumeric, lookOf } from "./cell-look";
import type { Across, Scene } from "./grid-row";
import { GridRows, type RowActions } from "./grid-rows";
import { columnsInBlocks } from "./grid-watch";

const MANY = 100;
const NOW = 1_000_000;
const of = <T>(make: (at: number) => T): T[] => Array.from({ length: MANY }, (_, at) => make(at));

function tableOf(): RunsTable {
  return {
    run_id: of((at) => `id${at}`),
    name: of((at) => `run-${at}`),
    experiment_id: of(() => "1"),
    user: of(() => "ada"),
    status: of((at) => (at === 0 ? "RUNNING" : "FINISHED")),
    lifecycle: of(() => "active"),
    start_ms: of(() => NOW - 90_000),
    end_ms: of((at) => (at === 0 ? null : NOW - 60_000)),
    heard_ms: of(() => null),
    metrics: { loss: { last: of((at) => at / 3), min: of((at) => at), max: of((at) => at), step: of(() => 1) } },
    params: { lr: of((at) => (at === 1 ? null : `${at}e-4`)) },
    tags: { "yard.star": of((at) => (at === 2 ? "1" : null)) },
    next_page_token: null,
  } as unknown as RunsTable;
}

function placesOf(...ids: string[]): Across[] {
  return ids.flatMap((id, at) => {
    const column = parseColumn(id);
    return column === null ? [] : [{ id, column, at, start: at * 100, size: 100, numeric: isNumeric(column) }];
  });
}

const plain: Line[] = of((row) => ({ group: null, row }));
const none: ReadonlySet<string> = new Set();
const scene = (change: Partial<Scene> = {}): Scene => ({
  table: tableOf(),
  version: 1,
  lines: plain,
  first: 0,
  last: 9,
  columns: placesOf("attribute:status", "attribute:duration", "metric:loss", "param:lr", "metric:later"),
  cursor: -1,
  ticked: none,
  hidden: none,
  charted: new Map(),
  folded: none,
  experiments: new Map([["1", "food"]]),
  now: NOW,
  ...change,
});

const actions = { tick: vi.fn(), hide: vi.fn(), star: vi.fn(), fold: vi.fn(), point: vi.fn(), open: vi.fn() } satisfies RowActions;
let names: HTMLElement;
let bodies: HTMLElement;
let rows: GridRows;

beforeEach(() => {
  vi.useFakeTimers({ now: NOW });
  Object.values(actions).forEach((action) => action.mockReset());
  document.body.innerHTML = '<div role="grid" tabindex="0"><div class="names"></div><div class="bodies"></div></div>';
  names = document.querySelector(".names") as HTMLElement;
  bodies = document.querySelector(".bodies") as HTMLElement;
  rows = new GridRows(names, bodies);
});

afterEach(() => {
  rows.close();
  vi.useRealTimers();
});

const wordsOf = (at: number): string[] => [...(bodies.children[at]?.children ?? [])].map((cell) => cell.textContent ?? "");
const part = (at: number, selector: string): HTMLElement => names.children[at]?.querySelector(selector) as HTMLElement;

describe("rows drawn into the page", () => {
  test("hold a name and the words of their cells; a cell on its way is told from an empty one", () => {
    rows.draw(scene(), actions);
    expect(names.textContent).toContain("run-0");
    expect(wordsOf(1)).toEqual(["succeeded", "30s", "0.333", "—", ""]);
    expect(bodies.children[1]?.querySelector(".cell-wait")).not.toBeNull();
    expect(part(2, ".star").textContent).toBe("★");
    expect(bodies.children[0]?.getAttribute("aria-owns")).toBe(names.children[0]?.id);
  });

  test("serve again for others when one scrolls, and stand in order once it is still", () => {
    const one = scene();
    rows.draw(one, actions);
    const before = new Set(bodies.children);
    rows.draw({ ...one, first: 4, last: 13 }, actions);
    expect(bodies.children).toHaveLength(10);
    expect([...bodies.children].every((row) => before.has(row))).toBe(true);
    vi.advanceTimersByTime(300);
    expect([...names.querySelectorAll(".run-name")].map((link) => link.textContent)).toEqual(Array.from({ length: 10 }, (_, at) => `run-${at + 4}`));
    expect((bodies.children[9] as HTMLElement).style.top).toBe("390px");
  });

  test("have other columns without being made anew", () => {
    const one = scene();
    rows.draw(one, actions);
    const row = bodies.children[3];
    rows.draw({ ...one, columns: placesOf("param:lr", "metric:loss@max") }, actions);
    expect(bodies.children[3]).toBe(row);
    expect(wordsOf(3).toSorted()).toEqual(["3", "3e-4"]);
  });

  test("keep the order of columns that go out on one side and come in on the other, moving only those", () => {
    const all = placesOf("attribute:status", "attribute:duration", "metric:loss", "param:lr");
    const heads = (): (string | null)[] => [...(bodies.children[1]?.children ?? [])].map((cell) => cell.getAttribute("aria-colindex"));
    rows.draw(scene({ columns: all.slice(0, 3) }), actions);
    const stays = bodies.children[1]?.children[1];
    const moves = vi.spyOn(Node.prototype, "insertBefore");
    rows.draw(scene({ columns: all.slice(1, 4) }), actions);
    expect([heads(), bodies.children[1]?.children[0]]).toEqual([["3", "4", "5"], stays]);
    rows.draw(scene({ columns: all.slice(0, 3) }), actions);
    expect(heads()).toEqual(["2", "3", "4"]);
    expect(moves).toHaveBeenCalledTimes(20);
  });

  test("are written anew when the table was filled in place", () => {
    const one = scene();
    rows.draw(one, actions);
    one.table.params.lr = of(() => "fresh");
    rows.draw({ ...one, version: 2 }, actions);
    expect(wordsOf(0)[3]).toBe("fresh");
    one.table.params.lr = of(() => "later");
    rows.refill();
    expect(wordsOf(0)[3]).toBe("later");
  });

  test("of running runs count on", () => {
    rows.draw(scene(), actions);
    expect(wordsOf(0)[1]).toBe("1m30");
    vi.advanceTimersByTime(5000);
    expect(wordsOf(0)[1]).toBe("1m35");
  });

  test("tick, hide, star and open their own run", () => {
    rows.draw(scene({ hidden: new Set(["id3"]) }), actions);
    part(4, ".tick").dispatchEvent(new MouseEvent("click", { bubbles: true, shiftKey: true }));
    part(3, ".eye").click();
    part(2, ".star").click();
    part(5, ".run-name").click();
    expect(actions.tick).toHaveBeenCalledWith("id4", 4, true);
    expect(actions.hide).toHaveBeenCalledWith("id3");
    expect(actions.star).toHaveBeenCalledWith("id2", false);
    expect(actions.open).toHaveBeenCalledWith("id5");
    expect(actions.point).toHaveBeenCalledTimes(3);
    expect(part(3, ".eye").getAttribute("aria-label")).toBe("Show run-3 in the charts");
  });

  test("show the whole value on hover", () => {
    rows.draw(scene(), actions);
    const cell = bodies.children[1]?.children[2] as HTMLElement;
    cell.dispatchEvent(new Event("pointerover", { bubbles: true }));
    expect(cell.title).toBe(String(1 / 3));
    expect(names.children[1]?.hasAttribute("data-hot")).toBe(true);
  });

  test("give the focus back to the table when their run scrolls away", () => {
    const one = scene();
    rows.draw(one, actions);
    part(0, ".tick").focus();
    rows.draw({ ...one, first: 50, last: 59 }, actions);
    expect(document.activeElement?.getAttribute("role")).toBe("grid");
  });

  test("of a group say how many runs it has and fold it", () => {
    const table = tableOf();
    const groups = groupRows(MANY, [(row) => (row < 2 ? "few" : "many")]);
    rows.draw(scene({ table, lines: layOut(groups, none) }), actions);
    expect(names.children[0]?.textContent).toBe("few2 runs");
    expect(wordsOf(0)[2]).toBe("ø 0.167");
    part(0, ".fold").click();
    expect(actions.fold).toHaveBeenCalledWith(groups[0]?.id);
    rows.draw(scene({ table }), actions);
    expect(names.querySelector(".group")).toBeNull();
  });
});

describe("columns drawn in blocks", () => {
  const near = (startIndex: number, endIndex: number, overscan = 1): { startIndex: number; endIndex: number; count: number; overscan: number } => ({ startIndex, endIndex, count: 202, overscan });

  test("hold all that are on screen, and stay the same until one scrolls by a block", () => {
    const inBlocks = columnsInBlocks(4);
    const first = inBlocks(near(8, 17));
    expect([first[0], first.at(-1)]).toEqual([8, 23]);
    expect([inBlocks(near(9, 18)), inBlocks(near(11, 20))].every((list) => list === first)).toBe(true);
    expect(inBlocks(near(12, 21))[0]).toBe(12);
    for (let at = 0; at < 190; at += 1) {
      const list = inBlocks(near(at, at + 10));
      expect((list[0] ?? 999) <= at && (list.at(-1) ?? 0) >= at + 10).toBe(true);
    }
  });

  test("are those on screen alone in the first drawing, and end with the last", () => {
    const inBlocks = columnsInBlocks(4);
    expect(inBlocks(near(0, 9, 0))).toHaveLength(10);
    expect(inBlocks(near(195, 201)).at(-1)).toBe(201);
  });
});

describe("the look of a cell", () => {
  test("names the experiment, cuts a commit and keeps a note on one line", () => {
    const table = tableOf();
    table.tags["mlflow.source.git.commit"] = of(() => "0123456789abcdef");
    table.tags["mlflow.note.content"] = of(() => "# Title\n**bold**");
    const at = (id: string) => lookOf(table, placesOf(id)[0]?.column ?? { kind: "tag", key: "" }, 0, new Map([["1", "food"]]), NOW);
    expect(at("attribute:experiment").text).toBe("food");
    expect(at("attribute:commit")).toEqual({ kind: "code", text: "01234567", full: "0123456789abcdef" });
    expect(at("attribute:note").text).toBe("Title bold");
    expect(at("attribute:user").text).toBe("ada");
    expect(at("spark:loss")).toEqual({ kind: "spark", text: "id0", full: "" });
    expect(groupLook(table, { kind: "param", key: "lr" }, [0, 1]).text).toBe("");
  });
});
