// @vitest-environment node
import { expect, test } from "vitest";

import { marksOf, noteMarks } from "./chart-marks";
import { ticksIn } from "./range";

const job = {
  attempts: [
    { number: 1, started_ms: 1000, resume_step: null, cause: "node_lost", exit_code: null, signal: null },
    { number: 2, started_ms: 61_000, resume_step: 80, cause: null, exit_code: null, signal: null },
  ],
  checkpoints: [{ step: 80, created_ms: 41_000 }],
};

test("attempts and checkpoints stand where they happened, on any axis", () => {
  expect(marksOf(job, "step", 1000)).toEqual([
    { at: 80, kind: "attempt", label: "attempt 2 after node lost" },
    { at: 80, kind: "checkpoint", label: "checkpoint at step 80" },
  ]);
  expect(marksOf(job, "relative", 1000).map((mark) => mark.at)).toEqual([60, 40]);
  expect(marksOf(job, "time", 1000).map((mark) => mark.at)).toEqual([61, 41]);
});

test("an axis has at least four round ticks wherever that is possible", () => {
  expect(ticksIn(0, 40, 6)).toEqual([0, 10, 20, 30, 40]);
  expect(ticksIn(0.74, 0.86, 8)).toHaveLength(5);
  for (const [low, high] of [[0, 1], [0.131, 0.472], [3, 1170], [-5, 5], [1e-6, 3e-5]] as const) {
    const ticks = ticksIn(low, high, 8);
    expect(ticks.length).toBeGreaterThanOrEqual(4);
    expect(ticks.length).toBeLessThanOrEqual(8);
    expect(ticks.every((tick) => tick >= low - 1e-9 && tick <= high + 1e-9)).toBe(true);
  }
  expect(ticksIn(1, 3, 4, [1, 2, 5])).toEqual([1, 2, 3]);
});

test("notes stand at their step, or at their time; those without a step are left out over steps", () => {
  const notes = [
    { time_ms: 61_000, step: 40, actor: "ada", detail: "**lowered** the rate" },
    { time_ms: 91_000, step: null, actor: "ben", detail: "x".repeat(200) },
  ];
  expect(noteMarks(notes, "step", 1000)).toEqual([{ at: 40, kind: "note", label: "ada: lowered the rate" }]);
  expect(noteMarks(notes, "relative", 1000).map(({ at, label }) => [at, label.length])).toEqual([
    [60, 21],
    [90, 86],
  ]);
});
