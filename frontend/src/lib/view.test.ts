// @vitest-environment node
import { describe, expect, it, test } from "vitest";

import { formatQuery, parseQuery } from "./address";
import { wholeFilter } from "../pages/runs/wish";
import { isStep, joinList, readView, readZoom, splitList, START, writeView, type View } from "./view";

test("a view that nobody touched leaves no trace in the address", () => {
  expect(writeView(START)).toEqual({});
  expect(readView({})).toEqual(START);
});

test("every part of a view survives the way through an address", () => {
  const view: View = {
    experiments: ["1", "2"],
    filter: "metrics.`val/acc` > 0.7 AND params.note = 'a,b & c'",
    only: ["failed", "by:ada"],
    sort: "metric:val/acc@max",
    deleted: true,
    columns: ["attribute:status", "metric:a,b~c"],
    group: ["param:lr"],
    ticked: ["f".repeat(32)],
    hidden: ["e".repeat(32)],
    pane: "charts",
    split: 30,
    plot: "parallel",
    x: "relative",
    logX: true,
    logY: true,
    smoothing: 0.6,
    band: false,
    orphans: true,
    search: "val.*",
    pinned: ["loss"],
    folded: ["train"],
    zoom: [10.5, 200],
    axes: ["param:lr", "metric:loss"],
  };
  const address = formatQuery(writeView(view));
  expect(readView(parseQuery(address))).toEqual(view);
});

test("an empty set of columns is not the set a page starts with", () => {
  expect(readView(writeView({ ...START, columns: [] })).columns).toEqual([]);
});

test("nonsense in an address is taken for the start", () => {
  const view = readView({ pane: "nowhere", plot: "pie", x: "depth", split: "900", smooth: "x", zoom: "9~3" });
  expect(view.pane).toBe("both");
  expect(view.plot).toBe("lines");
  expect(view.x).toBe("step");
  expect(view.split).toBe(85);
  expect(view.smoothing).toBe(0);
  expect(view.zoom).toBeNull();
});

test("lists keep commas and tildes inside their names", () => {
  expect(splitList(joinList(["a,b", "~", "c~1"]))).toEqual(["a,b", "~", "c~1"]);
  expect(splitList("")).toEqual([]);
});

test("a zoom needs two ends in order", () => {
  expect(readZoom("1~2")).toEqual([1, 2]);
  expect(readZoom("2~1")).toBeNull();
  expect(readZoom("1")).toBeNull();
  expect(readZoom(undefined)).toBeNull();
});

test("an address stays readable", () => {
  expect(formatQuery({ cols: "metric:loss,param:lr", q: "a b", none: "" })).toBe("?cols=metric:loss,param:lr&q=a+b");
  expect(parseQuery("?q=a+b&x=1%2B2")).toEqual({ q: "a b", x: "1+2" });
});

describe("a step back", () => {
  it("undoes what changes which runs or range one looks at, and nothing else", () => {
    expect(isStep(START, { filter: "heron" })).toBe(true);
    expect(isStep(START, { zoom: [1, 2] })).toBe(true);
    expect(isStep(START, { zoom: null })).toBe(false);
    expect(isStep(START, { smoothing: 0.5, split: 30 })).toBe(false);
  });

  it("quick filters join what was typed", () => {
    expect(wholeFilter({ filter: "", only: ["failed"] })).toBe("attributes.status = 'FAILED'");
    expect(wholeFilter({ filter: "params.a = '1' OR params.b = '2'", only: ["by:ada"] })).toBe("(params.a = '1' OR params.b = '2') AND attributes.user_id = 'ada'");
    expect(wholeFilter({ filter: "heron", only: [] })).toContain("ILIKE");
  });
});
