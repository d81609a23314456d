// @vitest-environment node
import { expect, test } from "vitest";

import { loadLines, loadPath, type LoadLike } from "./load";

const history: LoadLike = {
  since_ms: 0,
  width_ms: 60_000,
  loads: [
    { node_id: "a", what: "gpu0", points: [{ at_ms: 0, mean: 100 }, { at_ms: 60_000, mean: 50 }] },
    { node_id: "a", what: "gpu1", points: [{ at_ms: 0, mean: 0 }] },
    { node_id: "b", what: "cpu", points: [{ at_ms: 120_000, mean: 30 }] },
  ],
};

test("GPUs of all nodes make one line, with gaps where nothing was sampled", () => {
  const [gpu, cpu] = loadLines(history, 180_000);
  expect(gpu?.name).toBe("GPU");
  expect(gpu?.points.map((point) => point.value)).toEqual([50, 50, null]);
  expect(gpu?.mean).toBe(50);
  expect(cpu?.points.map((point) => point.value)).toEqual([null, null, 30]);
  expect(loadLines(history, 180_000)).toHaveLength(2);
});

test("a line is a path with gaps, and a lone point a dash", () => {
  expect(loadLines(history, 180_000).map((line) => loadPath(line, 180, 100))).toEqual(["M30.0 50.0L90.0 50.0", "M120.0 70.0L180.0 70.0"]);
});
