import { describe, expect, it } from "vitest";

import { customCurve, metricsOf, readChart, writeChart } from "./custom-chart";
import { evaluate, expressionFault, namesIn, parseExpression } from "./expression";

const METRICS = ["train/loss", "val/loss", "loss", "top-1", "val loss"];
const value = (text: string, values: Record<string, number> = {}): number => evaluate(parseExpression(text), (name) => values[name] ?? Number.NaN);

describe("expressions over metrics", () => {
  it("keep the order of operations", () => {
    expect(value("1 + 2 * 3 ^ 2 - 4 / 2")).toBe(17);
    expect(value("-2 ^ 2")).toBe(-4);
    expect(value("2 ^ 3 ^ 2")).toBe(512);
    expect(value("(1 + 2) * 3")).toBe(9);
    expect(value("max(1, 2, abs(-7)) - min(4, 3)")).toBe(4);
    expect(value("1e3 * .5")).toBe(500);
  });

  it("know names with slashes, minus signs and spaces", () => {
    expect(value("train/loss - val/loss", { "train/loss": 3, "val/loss": 1 })).toBe(2);
    expect(namesIn(parseExpression("top-1 / `val loss` + top-1"))).toEqual(["top-1", "val loss"]);
    expect(value("loss / 4", { loss: 8 })).toBe(2);
  });

  it("say what is wrong", () => {
    const wrong = ["", "loss +", "loss loss", "(loss", "sin(loss)", "abs(1, 2)", "loss; 1", "constructor(1)", "1e", "`", "(".repeat(300)];
    expect(wrong.filter((text) => !/cannot be read|No metric/.test(expressionFault(text, METRICS) ?? ""))).toEqual([]);
    expect(expressionFault("acc", METRICS)).toBe("No metric is named acc.");
    expect(expressionFault("loss/loss", METRICS)).toContain("put spaces");
    expect(expressionFault("train/loss - val/loss + step", METRICS)).toBeNull();
  });

  it("are joined on steps, the last value counting until the next", () => {
    const series = (key: string, step: number[], last: number[]) => ({ run_id: "r", key, width: 1, step, time_ms: step.map((one) => one * 1000), last, min: last, max: last });
    const some = [series("train/loss", [0, 1, 2, 3], [8, 6, 4, 2]), series("val/loss", [1, 3], [5, 1])];
    const look = { name: "run", colour: "#000", start: 0 };
    const curve = customCurve({ y: "train/loss - val/loss", x: "" }, some, look, "step", 0);
    expect([...(curve?.x ?? [])]).toEqual([0, 1, 2, 3]);
    expect([...(curve?.y ?? [])]).toEqual([Number.NaN, 1, -1, 1]);
    const against = customCurve({ y: "val/loss", x: "train/loss" }, some, look, "step", 0);
    expect([...(against?.x ?? [])]).toEqual([2, 4, 6, 8]);
    expect([...(against?.y ?? [])]).toEqual([1, 5, 5, Number.NaN]);
    expect(metricsOf({ y: "train/loss - val/loss", x: "step" })).toEqual(["train/loss", "val/loss"]);
    expect(readChart("yard.chart.gap", writeChart({ title: "gap", y: "a - b", x: "" }))).toEqual({ title: "gap", y: "a - b", x: "" });
    expect(readChart("yard.chart.gap", "rubbish")).toBeNull();
  });
});
