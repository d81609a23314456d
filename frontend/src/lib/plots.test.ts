// @vitest-environment node
import { describe, expect, test } from "vitest";

import { colourOf, coloursOf, faded, PALETTE, ramp, shaded } from "./colour";
import { axesFor, quartiles, scaleOf } from "./explore";
import { groupRows, layOut, summarise } from "./grouping";
import { fixedRange, folders, inOrder, isSystem, machineLabel, machinePart, machineRank } from "./metric-names";
import { isLive, stateOf } from "./states";
import { endsOf, lanesOf } from "./timeline";

describe("colours", () => {
  test("a run keeps its colour, and runs spread over the set", () => {
    const ids = Array.from({ length: 200 }, (_, at) => `run-${at}`);
    expect(colourOf("run-1")).toBe(colourOf("run-1"));
    expect(new Set(ids.map(colourOf)).size).toBeGreaterThan(PALETTE.length);
  });

  test("runs drawn together differ, and each keeps its own colour where it is free", () => {
    const ids = Array.from({ length: 40 }, (_, at) => `run-${at}`);
    for (let first = 0; first < 20; first += 1) {
      const few = ids.slice(first, first + 20);
      const found = coloursOf(few);
      expect(new Set(found.values()).size).toBe(20);
      expect(found.get(few[0] ?? "")).toBe(colourOf(few[0] ?? ""));
    }
    expect(new Set(coloursOf(ids).values()).size).toBe(40);
  });

  test("can be faded, shaded and laid on a ramp", () => {
    expect(faded("#0072b2", 0.5)).toBe("rgba(0, 114, 178, 0.5)");
    expect([shaded("#808080", 1), shaded("#808080", -1), shaded("#808080", 0)]).toEqual(["#ffffff", "#000000", "#808080"]);
    expect(ramp(-1)).toBe(ramp(0));
    expect(ramp(0)).not.toBe(ramp(1));
  });
});

describe("plots over columns", () => {
  test("numbers as text make a scale of numbers, words one of words", () => {
    const numbers = scaleOf(["1", 2, null, "3"], String);
    expect(numbers.numeric).toBe(true);
    expect(numbers.at("2")).toBeCloseTo(0.5);
    expect(numbers.at(null)).toBeNull();
    const words = scaleOf(["b", "a", "b"], String);
    expect(words.words).toEqual(["a", "b"]);
    expect([words.at("a"), words.at("b"), words.at("z"), words.at(null)]).toEqual([0, 1, null, null]);
    expect(scaleOf(["one"], String).at("one")).toBe(0.5);
  });

  test("values over several powers of ten lie on a log scale", () => {
    const scale = scaleOf([0.0001, 0.01, 1], String);
    expect(scale.at(0.01)).toBeCloseTo(0.5, 1);
    expect(scale.ticks.map((tick) => tick.label)).toEqual(["0.0001", "0.001", "0.01", "0.1", "1"]);
  });

  test("axes start with what matters and keep what was chosen", () => {
    expect(axesFor("scatter", [], ["loss", "val_acc", "system/cpu"], ["lr", "depth"])).toEqual(["param:lr", "metric:val_acc", "param:depth"]);
    expect(axesFor("scatter", ["metric:loss", "param:lr", "param:lr"], ["loss", "val_acc"], ["lr", "depth"])[0]).toBe("metric:loss");
    expect(axesFor("bar", ["param:lr"], ["loss"], ["lr"])).toEqual(["metric:loss"]);
    expect(axesFor("box", ["param:lr", "param:depth", "metric:loss"], ["loss"], ["lr", "depth"])).toEqual(["metric:loss", "param:lr"]);
    expect(axesFor("parallel", [], ["loss"], ["lr", "depth"])).toEqual(["param:lr", "param:depth", "metric:loss"]);
    expect(axesFor("parallel", ["param:depth", "metric:loss"], ["loss"], ["lr", "depth"])).toEqual(["param:depth", "metric:loss"]);
    expect(axesFor("box", [], ["loss"], [])).toEqual(["metric:loss"]);
    expect(axesFor("bar", [], [], [])).toEqual([]);
  });

  test("a box holds the middle half, and what is far away lies outside", () => {
    expect(quartiles([1, 2, 3, 4, 100])).toEqual({ low: 1, q1: 2, median: 3, q3: 4, high: 4, outliers: [100] });
    expect(quartiles([])).toBeNull();
  });
});

describe("groups", () => {
  test("rows that agree come together in order of first sight", () => {
    const cells = ["a", "b", "a"];
    const groups = groupRows(3, [(row) => cells[row] ?? ""]);
    expect(groups.map((group) => [group.values, group.rows])).toEqual([
      [["a"], [0, 2]],
      [["b"], [1]],
    ]);
    expect(layOut(groups, new Set([groups[0]?.id ?? ""])).map((line) => line.row)).toEqual([null, null, 1]);
  });

  test("only numbers are summed up", () => {
    expect(summarise([1, null, "NaN", 3, undefined])).toEqual({ count: 2, mean: 2, min: 1, max: 3 });
    expect(summarise([null])).toBeNull();
  });
});

describe("names of metrics", () => {
  test("folders by prefix, plain names first, counted as people count", () => {
    expect(folders(["train/loss", "acc", "train/acc", "val/loss"]).map((folder) => [folder.name, folder.metrics])).toEqual([
      ["", ["acc"]],
      ["train", ["train/acc", "train/loss"]],
      ["val", ["val/loss"]],
    ]);
    expect(inOrder(["gpu_10", "gpu_2"])).toEqual(["gpu_2", "gpu_10"]);
  });

  test("the machine's own are sorted by part, GPUs first", () => {
    expect(isSystem("system/cpu_utilization_percentage")).toBe(true);
    expect(machinePart("system/gpu_1_power_usage_watts")).toBe("GPU 1");
    expect(machinePart("system/node-2/system_memory_usage_megabytes")).toBe("node-2 · Memory");
    expect(machinePart("system/fan")).toBe("Other");
    expect(machineLabel("system/gpu_0_utilization_percentage")).toBe("utilization %");
    expect(machineRank("GPU 1")).toBeLessThan(machineRank("Disk"));
    expect(machineRank("Other")).toBe(5);
    expect(fixedRange("system/cpu_utilization_percentage")).toEqual([0, 100]);
    expect(fixedRange("val_percentage")).toBeNull();
  });
});

describe("states", () => {
  test("each has a word and an icon, unknown ones too", () => {
    expect(stateOf("FINISHED")).toEqual({ word: "succeeded", icon: "tick", tone: "green" });
    expect(stateOf("ODD").word).toBe("odd");
    expect([isLive("RUNNING"), isLive("FAILED")]).toEqual([true, false]);
  });
});

describe("timeline", () => {
  const life = { status: "FINISHED", start: 1000, end: 61_000, firstPoint: 2000, lastPoint: 60_000 };

  test("shows the run, its points, its files and what happened", () => {
    const events = [
      { kind: "artifact.written", time_ms: 50_000, data: { path: "model" } },
      { kind: "run.finished", time_ms: 61_000, data: {} },
      { kind: "run.logged", time_ms: 3000, data: {} },
    ];
    const lanes = lanesOf(life, events, 99_000);
    expect(lanes.map((lane) => lane.name)).toEqual(["Run", "Metrics", "Artifacts", "Events"]);
    expect(lanes[2]?.marks[0]?.label).toBe("wrote model");
    const [from, to] = endsOf(lanes);
    expect(from).toBeLessThan(1000);
    expect(to).toBeGreaterThan(61_000);
  });

  test("a running run reaches to now", () => {
    expect(lanesOf({ ...life, status: "RUNNING", end: null }, [], 99_000)[0]?.bars[0]?.to).toBe(99_000);
    expect(lanesOf({ status: "KILLED", start: null, end: null, firstPoint: null, lastPoint: null }, [], 5)).toHaveLength(1);
    expect(endsOf([])).toEqual([0, 1]);
  });
});
