// @vitest-environment node
import { describe, expect, test } from "vitest";

import { accept, asFilter, complete, quoted, tokens } from "./filter";

const NAMES = { metrics: ["val_accuracy", "train/loss"], params: ["lr", "model"], tags: ["team"] };
const labels = (text: string, known: readonly string[] = []): string[] =>
  complete(text, text.length, NAMES, () => known).suggestions.map((one) => one.label);

describe("what is asked of the server", () => {
  test("bare words look for runs by name, comparisons stay as they are", () => {
    expect(asFilter("")).toBe("");
    expect(asFilter("heron")).toBe("attributes.run_name ILIKE '%heron%'");
    expect(asFilter(" vit  small ")).toBe("attributes.run_name ILIKE '%vit%' AND attributes.run_name ILIKE '%small%'");
    expect(asFilter("it's 50%")).toBe("attributes.run_name ILIKE '%its%' AND attributes.run_name ILIKE '%50%'");
    for (const text of ["params.lr = '1'", "metrics.loss>1", "params.lr =", "tags.a IS NULL", "run_name LIKE 'a%'", "run_id in ('a')"]) {
      expect(asFilter(text)).toBe(text);
    }
  });
});

describe("what may come at the caret", () => {
  test("a field at the start, and after AND", () => {
    expect(labels("")).toContain("metrics.val_accuracy");
    expect(labels("params.lr = '1' AND ")).toContain("tags.team");
  });

  test("a part of a name finds the field whatever its kind", () => {
    expect(labels("acc")).toEqual(["metrics.val_accuracy"]);
    expect(labels("status")).toEqual(["attributes.status"]);
  });

  test("operators fit the kind of field", () => {
    expect(labels("metrics.val_accuracy ")).toEqual([">", ">=", "<", "<=", "=", "!="]);
    expect(labels("params.lr ")).toEqual(["=", "!=", "LIKE", "ILIKE", "IS NULL", "IS NOT NULL"]);
    expect(labels("attributes.start_time ")).toContain(">=");
  });

  test("values are those seen, or the known states", () => {
    expect(labels("params.lr = ", ["0.1", "0.2"])).toEqual(["'0.1'", "'0.2'"]);
    expect(labels("params.lr = '0.1", ["0.1", "0.2"])).toEqual(["'0.1'"]);
    expect(labels("attributes.status = ")).toContain("'FAILED'");
    expect(labels("metrics.val_accuracy > ")).toEqual([]);
  });

  test("after a value, or IS NULL, comes a joining word", () => {
    expect(labels("params.lr = '0.1' ")).toEqual(["AND", "OR"]);
    expect(labels("params.lr IS NULL ")).toEqual(["AND", "OR"]);
  });
});

test("names with signs are quoted", () => {
  expect([quoted("lr"), quoted("train/loss"), quoted("a b")]).toEqual(["lr", "`train/loss`", "`a b`"]);
  const { suggestions } = complete("train", 5, NAMES);
  expect(suggestions[0]?.insert).toBe("metrics.`train/loss` ");
});

test("a chosen word takes the place of the piece at the caret", () => {
  expect(accept("acc AND x", 3, 0, "metrics.acc ")).toEqual({ text: "metrics.acc AND x", caret: 12 });
});

test("pieces keep quoted text whole", () => {
  expect(tokens("params.`a b`>='x y' and").map((one) => one.text)).toEqual(["params.`a b`", ">=", "'x y'", "and"]);
});
