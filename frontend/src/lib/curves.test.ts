// @vitest-environment node
import { describe, expect, test } from "vitest";

import { brokenAt, curveOf, lowerBound, meanOf, nearest, placesOf, reachOf, readAt, spanOf, stepsIn, type Rolled } from "./curves";
import { extent, logTicks, niceStep, padded, steady, union } from "./range";
import { smooth } from "./smoothing";

const series = (change: Partial<Rolled> = {}): Rolled => ({
  run_id: "a",
  key: "loss",
  width: 1,
  step: [0, 10, 20],
  time_ms: [1000, 11_000, 21_000],
  last: [3, null, 1],
  min: [3, null, 1],
  max: [3, null, 1],
  ...change,
});
const look = { name: "calm-hen", colour: "#0072b2", start: 1000 };

describe("curves", () => {
  test("hang on steps, on time or on time since the start", () => {
    expect([...placesOf(series(), "step", 0)]).toEqual([0, 10, 20]);
    expect([...placesOf(series(), "time", 0)]).toEqual([1, 11, 21]);
    expect([...placesOf(series(), "relative", 1000)]).toEqual([0, 10, 20]);
    expect([...placesOf(series(), "relative", null)]).toEqual([0, 10, 20]);
  });

  test("of a group are drawn as their mean, with the range of its runs as the band", () => {
    const one = curveOf(series({ last: [4, 2, 0] }), look, "step", 0);
    const other = curveOf(series({ run_id: "b", step: [0, 20], time_ms: [0, 1], last: [2, 6], min: [], max: [] }), look, "step", 0);
    const mean = meanOf([one, other], { id: "g", name: "lr 1e-4", colour: "#e69f00" });
    expect([...mean.x]).toEqual([0, 10, 20]);
    expect([...mean.y]).toEqual([3, 3, 3]);
    expect([[...(mean.low ?? [])], [...(mean.high ?? [])]]).toEqual([[2, 2, 0], [4, 4, 6]]);
  });

  test("a point that is no number is a gap", () => {
    expect([...curveOf(series(), look, "step", 0).y]).toEqual([3, Number.NaN, 1]);
  });

  test("a curve is interrupted between two attempts, and only where there are points on both sides", () => {
    const curve = curveOf(series({ last: [3, 2, 1], width: 2, min: [3, 2, 1], max: [3, 2, 1] }), look, "time", 0);
    const broken = brokenAt(curve, [0.5, 15, 40]);
    expect([...broken.x]).toEqual([1, 11, 15, 21]);
    expect([...broken.y]).toEqual([3, 2, Number.NaN, 1]);
    expect([...(broken.low ?? [])]).toEqual([3, 2, Number.NaN, 1]);
    expect(broken.step).toHaveLength(4);
    expect(readAt([broken], 15, 1)).toEqual([]);
    expect(brokenAt(curve, [])).toBe(curve);
  });

  test("a band is drawn only where buckets hold more than one point", () => {
    expect(curveOf(series(), look, "step", 0).low).toBeNull();
    expect([...(curveOf(series({ width: 4 }), look, "step", 0).high ?? [])]).toEqual([3, Number.NaN, 1]);
  });

  test("a smoothed curve keeps its values beside the line", () => {
    const curve = curveOf(series(), look, "step", 0.5);
    expect([...(curve.raw ?? [])]).toEqual([3, Number.NaN, 1]);
    expect(curve.y[0]).toBeCloseTo(3);
  });

  test("spans and reaches cover all curves, within a range", () => {
    const curves = [curveOf(series(), look, "step", 0), curveOf(series({ run_id: "b", step: [5, 40, 50], last: [9, 2, 2], min: [0, 0, 0], max: [9, 9, 9], width: 2 }), look, "step", 0)];
    expect(spanOf(curves, false)).toEqual([0, 50]);
    expect(reachOf(curves, [10, 50], false, false)).toEqual([1, 2]);
    expect(reachOf(curves, [0, 50], false, true)).toEqual([0, 9]);
    expect(reachOf(curves, [0, 50], true, true)).toEqual([1, 9]);
    expect(spanOf([], false)).toBeNull();
  });

  test("readings come greatest first, without curves that are not near", () => {
    const near = curveOf(series(), look, "step", 0);
    const far = curveOf(series({ run_id: "b", step: [500, 510, 520], last: [7, 7, 7] }), look, "step", 0);
    const other = curveOf(series({ run_id: "c", last: [5, 5, 5] }), look, "step", 0);
    expect(readAt([near, far, other], 19, 4).map((one) => [one.curve.id, one.value])).toEqual([
      ["c", 5],
      ["a", 1],
    ]);
    expect(readAt([near], 10, 4)).toEqual([]);
  });

  test("zooming in time asks for the steps that lie in it", () => {
    const starts = new Map([["a", 1000]]);
    expect(stepsIn([series()], "step", starts, [1.5, 2.5])).toEqual([1, 3]);
    expect(stepsIn([series()], "relative", starts, [12, 15])).toEqual([10, 20]);
    expect(stepsIn([], "time", starts, [0, 1])).toBeNull();
  });

  test("places are found by halving", () => {
    expect([lowerBound([1, 3, 5], 0), lowerBound([1, 3, 5], 3), lowerBound([1, 3, 5], 9)]).toEqual([0, 1, 3]);
    expect([nearest([], 1), nearest([1, 3, 5], 2.1), nearest([1, 3, 5], 9), nearest([1, 3, 5], 0)]).toEqual([-1, 1, 2, 0]);
  });
});

describe("ranges", () => {
  test("are found over finite values only", () => {
    expect(extent([1, Number.NaN, 5, Number.POSITIVE_INFINITY])).toEqual([1, 5]);
    expect(extent([-1, 0, 4], true)).toEqual([4, 4]);
    expect(extent([])).toBeNull();
    expect(union(null, [1, 2])).toEqual([1, 2]);
    expect(union([0, 1], [3, 4])).toEqual([0, 4]);
  });

  test("end on round numbers and do not cross zero for nothing", () => {
    expect(padded([0.1, 9.7])).toEqual([0, 12]);
    expect(padded([-9.7, -0.1])[1]).toBe(0);
    expect(padded([2, 2])).toEqual([1.8, 2.2]);
    expect(padded([0, 0])).toEqual([-1, 1]);
    expect(padded(null)).toEqual([0, 1]);
    expect(padded([1, 1], true)).toEqual([0.5, 2]);
    expect(padded([1, 100], true)[0]).toBeLessThan(1);
    expect([niceStep(0.7), niceStep(1.2), niceStep(3), niceStep(7)]).toEqual([1, 2, 5, 10].map((value) => value));
  });

  test("stay while the curve grows inside them", () => {
    const first = steady(null, [0, 10]);
    expect(steady(first, [0, 9])).toBe(first);
    expect(steady(first, [0, 10.4])).toBe(first);
    expect(steady(first, [0, 30])).not.toBe(first);
    expect(steady(first, [0, 1])).not.toBe(first);
    expect(steady(first, null)).toEqual([0, 1]);
    expect(steady([1, 100], [1, 90], true)).toEqual([1, 100]);
  });
});

describe("smoothing", () => {
  test("no weight changes nothing", () => {
    expect([...smooth([1, 5, 2], 0)]).toEqual([1, 5, 2]);
  });

  test("starts at the first value and leans towards the new ones", () => {
    const out = smooth([1, 1, 1, 10], 0.5);
    expect(out[0]).toBeCloseTo(1);
    expect(out[2]).toBeCloseTo(1);
    expect(out[3]).toBeGreaterThan(1);
    expect(out[3]).toBeLessThan(10);
  });

  test("gaps stay gaps and do not spoil what follows", () => {
    const out = smooth([2, Number.NaN, 2], 0.9);
    expect(out[1]).toBeNaN();
    expect(out[2]).toBeCloseTo(2);
  });
});

test("ticks of a logarithmic axis come to an end whatever its least value begins with", () => {
  expect(logTicks(0.0966, 1.1)).toEqual([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]);
  expect(logTicks(0.52, 0.58)).toEqual([0.52, 0.58]);
  expect(logTicks(1e-9, 1e-8)).toHaveLength(10);
  expect(logTicks(0, 10)).toEqual([]);
});
