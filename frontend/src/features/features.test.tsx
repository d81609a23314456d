import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, test, vi } from "vitest";

import type { RunsTable } from "../api/runs";
import { folded } from "./diff/text-diff";
import { diffLines } from "../lib/diff";
import { pretty } from "./artifacts/file-view";
import { hits } from "./artifacts/lines";
import { cellText } from "./artifacts/parquet";
import { sorted } from "./artifacts/value-table";
import { sectionsOf } from "./chart/panels";
import { pointsFor } from "./chart/panel";
import { fileName } from "./chart/export";
import { FilterBox } from "./filter/filter-box";
import { Markdown } from "./markdown/markdown";
import { Note } from "./markdown/note";
import { passes } from "./explore/parallel";
import { scaleOf } from "../lib/explore";
import { afterSignIn, takeCode } from "./shell/sign-in";
import { runFilter } from "./shell/palette";
import { cellAt, durationAt, needs, numberAt, sortedRows } from "./table/cells";
import { sparkPath } from "./table/sparkline";
import { moved } from "./table/table-head";
import { yard } from "../lib/yard-line";

afterEach(cleanup);

describe("the filter box", () => {
  const names = { metrics: ["val_acc"], params: ["lr"], tags: [] };

  test("completes with the keyboard and asks on Enter", async () => {
    const user = userEvent.setup();
    const asked = vi.fn();
    render(<FilterBox value="" names={names} known={() => ["0.1"]} error={null} onChange={asked} />);
    await user.type(screen.getByRole("combobox", { name: "Filter" }), "acc{ArrowDown}{Enter}> 0.7{Enter}");
    expect(asked).toHaveBeenCalledWith("metrics.val_acc > 0.7");
  });

  test("shows what the server says of the filter", () => {
    render(<FilterBox value="x" names={names} known={() => []} error="Invalid clause: x" onChange={() => undefined} />);
    expect(screen.getByRole("alert").textContent).toContain("Invalid clause");
    expect(screen.getByRole("combobox").getAttribute("aria-invalid")).toBe("true");
  });
});

describe("notes", () => {
  test("are drawn, edited in place and saved, with the command beside them", async () => {
    const user = userEvent.setup();
    const saved = vi.fn(() => Promise.resolve());
    render(<Note text="**old**" onSave={saved} line={(text) => yard.note("r1", text)} />);
    expect(screen.getByText("old").tagName).toBe("STRONG");
    await user.click(screen.getByRole("button", { name: "Edit" }));
    await user.clear(screen.getByRole("textbox"));
    await user.type(screen.getByRole("textbox"), "new");
    expect(screen.getByText("yard edit r1 --note new")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(saved).toHaveBeenCalledWith("new");
  });

  test("hold no element that a text could bring", () => {
    const { container } = render(<Markdown text={'<script>alert(1)</script>\n\n[x](javascript:alert(1)) <img src=x onerror="alert(1)">'} />);
    expect(container.querySelector("script, img, a")).toBeNull();
  });
});

describe("charts", () => {
  test("folders, pins and the machine make sections", () => {
    const names = ["loss", "train/acc", "system/gpu_0_power_usage_watts", "system/cpu_utilization_percentage"];
    const options = { search: "", pinned: ["loss"], folded: [], machineOpen: false };
    expect(sectionsOf(names, options).map((one) => [one.name, one.open])).toEqual([["Pinned", true], ["train", true], ["System metrics", false]]);
    expect(sectionsOf(names, { ...options, machineOpen: true, pinned: [] }).map((one) => one.name)).toEqual(["Metrics", "train", "GPU 0", "CPU"]);
    expect(sectionsOf(names, { ...options, search: "acc" }).map((one) => one.name)).toEqual(["train"]);
    const many = Array.from({ length: 300 }, (_, at) => `f${at % 3}/m${at}`);
    expect(sectionsOf(many, { ...options, pinned: [] }).map((one) => one.open)).toEqual([true, false, false]);
    expect(sectionsOf(many, { ...options, pinned: [], folded: ["f1"] }).map((one) => one.open)).toEqual([true, true, false]);
  });

  test("many runs are asked for more coarsely", () => {
    expect([pointsFor(5, false), pointsFor(20, false), pointsFor(90, false), pointsFor(5, true)]).toEqual([400, 200, 100, 1000]);
    expect([fileName("train/loss", "png"), fileName("//", "csv")]).toEqual(["train_loss.png", "chart.csv"]);
  });

  test("a run passes a brush or not", () => {
    const data = [1, 5, 9].map((value) => ({ id: String(value), name: "", values: [value] }));
    const scales = [scaleOf([1, 5, 9], String)];
    expect(data.filter((one) => passes(one, scales, new Map([[0, [0, 0.6]]]))).map((one) => one.id)).toEqual(["1", "5"]);
  });

  test("a sparkline leaves gaps and needs a point", () => {
    expect(sparkPath({ step: [0, 1, 2, 3], last: [1, null, 2, 3] }, 100, 20).match(/M/g)).toHaveLength(2);
    expect(sparkPath({ step: [], last: [] }, 100, 20)).toBe("");
  });
});

describe("cells", () => {
  const table: RunsTable = {
    run_id: ["a", "b"],
    experiment_id: ["1", "1"],
    name: ["x", "y"],
    user: ["ada", "grace"],
    status: ["RUNNING", "FINISHED"],
    lifecycle: ["active", "active"],
    start_ms: [1000, 2000],
    end_ms: [null, 9000],
    heard_ms: [null, null],
    metrics: { loss: { last: [1, "NaN"], min: [0, null], max: [2, null], step: [3, 3] } },
    params: { lr: ["0.1", null] },
    tags: { "mlflow.note.content": ["why", null] },
    next_page_token: null,
  };

  test("are found by column, and wait while theirs is on the way", () => {
    expect(cellAt(table, { kind: "metric", key: "loss", stat: "max" }, 0, 0)).toBe(2);
    expect(cellAt(table, { kind: "metric", key: "other", stat: "last" }, 0, 0)).toBeUndefined();
    expect(cellAt(table, { kind: "param", key: "lr" }, 1, 0)).toBeNull();
    expect(cellAt(table, { kind: "attribute", key: "note" }, 0, 0)).toBe("why");
    expect(["status", "started", "user", "experiment", "other"].map((key) => cellAt(table, { kind: "attribute", key }, 1, 0))).toEqual(["FINISHED", 2000, "grace", "1", null]);
    expect([durationAt(table, 0, 5000), durationAt(table, 1, 5000)]).toEqual([4000, 7000]);
    expect(numberAt(table, { kind: "param", key: "lr" }, 0, 0)).toBeCloseTo(0.1);
    expect(numberAt(table, { kind: "param", key: "lr" }, 1, 0)).toBeNaN();
  });

  test("rows sort by what only the page knows, empty ones last", () => {
    expect(sortedRows(table, { kind: "attribute", key: "duration" }, true, 5000)).toEqual([1, 0]);
    expect(sortedRows(table, { kind: "param", key: "lr" }, true, 0)).toEqual([0, 1]);
  });

  test("only what is on screen is needed of the server", () => {
    expect(needs(["metric:loss@min", "metric:loss", "param:lr", "attribute:note", "tag:team", "spark:loss", "bogus"])).toEqual({ metrics: ["loss"], params: ["lr"], tags: ["mlflow.note.content", "team"] });
  });

  test("columns move to where they are dropped", () => {
    expect(moved(["a", "b", "c"], "c", "a")).toEqual(["c", "a", "b"]);
    expect(moved(["a", "b", "c"], "a", "c")).toEqual(["b", "c", "a"]);
  });
});

describe("files", () => {
  test("equal stretches of a diff are folded", () => {
    const text = Array.from({ length: 40 }, (_, at) => `line ${at}`);
    const other = text.with(20, "changed");
    expect(folded(diffLines(text.join("\n"), other.join("\n"))).map((piece) => [piece.kind, piece.lines.length])).toEqual([["fold", 17], ["lines", 7], ["fold", 16]]);
  });

  test("JSON is indented when it is whole", () => {
    expect(pretty('{"a":1}', false)).toBe('{\n  "a": 1\n}');
    expect([pretty("{half", false), pretty('{"a":1}', true)]).toEqual(["{half", '{"a":1}']);
  });

  test("lines with a word are found", () => {
    expect([hits(["a error", "b", "ERROR c"], "error"), hits(["a"], "")]).toEqual([[0, 2], []]);
  });

  test("tables sort numbers as numbers", () => {
    expect(sorted([["10"], ["9"], ["x"]], 0, false).map((row) => row[0])).toEqual(["9", "10", "x"]);
    expect(sorted([["1"], ["2"]], 0, true).map((row) => row[0])).toEqual(["2", "1"]);
  });

  test("cells of Parquet become text", () => {
    expect([cellText(null), cellText(3n), cellText(new Date(0)), cellText({ a: 1n }), cellText(true)]).toEqual(["", "3", "1970-01-01T00:00:00.000Z", '{"a":1}', "true"]);
  });
});

describe("sign-in", () => {
  test("takes the code out of the address", () => {
    const history = { state: null, replaceState: vi.fn() };
    const code = takeCode({ hash: "#code=abc", pathname: "/signin", search: "" } as Location, history as unknown as History);
    expect(code).toBe("abc");
    expect(history.replaceState).toHaveBeenCalledWith(null, "", "/signin");
    expect(takeCode({ hash: "", pathname: "/signin", search: "" } as Location, history as unknown as History)).toBeNull();
  });

  test("leads back to our own pages only", () => {
    expect(afterSignIn("?next=%2Fapp%2Fruns%3Fexp%3D1")).toBe("/app/runs?exp=1");
    expect([afterSignIn("?next=https://evil.example"), afterSignIn("?next=//evil.example/app/"), afterSignIn("")]).toEqual(["/app/home", "/app/home", "/app/home"]);
  });

  test("the palette finds runs by name or id", () => {
    expect(runFilter("hen")).toBe("attributes.run_name ILIKE '%hen%'");
    expect(runFilter("f".repeat(32))).toBe(`attributes.run_id = '${"f".repeat(32)}'`);
    expect([runFilter("a"), runFilter("'%")]).toEqual(["", ""]);
  });
});
