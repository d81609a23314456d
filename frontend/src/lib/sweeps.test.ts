/** Sweeps as their pages show them. */
import { describe, expect, test } from "vitest";

import { bestSoFar, explored, progressWords, ranked, readValues, sweepState } from "./sweeps";

const trial = (number: number, state: string, value: number | null, params = {}) => ({
  number,
  state,
  value,
  params,
  run_id: `r${number}`,
  ended_ms: state === "running" ? null : 100 - number,
});

describe("sweeps", () => {
  test("the best so far follows the order in which trials ended", () => {
    const trials = [trial(0, "complete", 3), trial(1, "complete", 5), trial(2, "pruned", 1), trial(3, "complete", 4)];
    expect(bestSoFar(trials, "minimize").map(({ number, best }) => [number, best])).toEqual([
      [3, 4],
      [1, 4],
      [0, 3],
    ]);
    expect(bestSoFar(trials, "maximize").map(({ best }) => best)).toEqual([4, 5, 5]);
  });

  test("plots leave out trials without a value and parameters that do not apply", () => {
    const data = explored([trial(0, "complete", 2, { lr: 0.1, warm: true }), trial(1, "failed", null)], ["lr", "momentum", "warm"]);
    expect(data).toEqual([{ id: "r0", name: "trial 0", values: [0.1, null, "true", 2] }]);
  });

  test("the table has the best first and what was stopped early after", () => {
    const trials = [trial(0, "pruned", 0.1), trial(1, "complete", 2), trial(2, "failed", null), trial(3, "complete", 1)];
    expect(ranked(trials, "minimize").map(({ number }) => number)).toEqual([3, 1, 0, 2]);
    expect(ranked(trials, "maximize").map(({ number }) => number)).toEqual([1, 3, 0, 2]);
  });

  test("words and values", () => {
    expect(progressWords({ running: 2, complete: 3, failed: 1 }, 10)).toBe("4 / 10");
    expect(progressWords({}, null)).toBe("0");
    expect(sweepState("pruned").word).toBe("stopped early");
    expect(sweepState("other")).toEqual({ word: "other", icon: "square", tone: "grey" });
    expect(readValues("epochs=100, opt=sgd warm=true x=")).toEqual({ epochs: 100, opt: "sgd", warm: true, x: "" });
  });
});
