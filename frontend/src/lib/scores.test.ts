// @vitest-environment node
import { expect, test } from "vitest";

import { standOut } from "./diff";
import { scoresOf } from "./scores";

test("scores stand beside each other, tests first, with the best of each", () => {
  const scores = scoresOf([new Map([["train_loss", 0.3], ["test_accuracy", 0.8], ["lr", 1]]), new Map([["train_loss", 0.2], ["test_accuracy", 0.7]]), new Map([["train_loss", "NaN"]])]);
  expect(scores.map(({ name, best }) => [name, best])).toEqual([["test_accuracy", 0], ["train_loss", 1]]);
  expect(scores[1]?.values).toEqual([0.3, 0.2, null]);
});

test("only what is unlike the rest stands out", () => {
  expect(standOut(["a", "a", "b"])).toEqual([false, false, true]);
  expect(standOut(["a", "b"])).toEqual([false, true]);
  expect(standOut(["a", null, null])).toEqual([true, false, false]);
});
