import { describe, expect, test } from "vitest";

import { lineAt, shareOf, timeOf } from "./log-moment";
import { attemptAt, byDay, chosen, endsOfLanes, lanesFrom } from "./logbook";

const entry = (id: string, minute: number, kind: string, sentence: string) => ({
  id,
  time_ms: Date.UTC(2026, 10, 18, 12, minute),
  kind,
  sentence,
});

describe("a logbook", () => {
  const entries = [
    entry("a", 0, "attempt", "Attempt 1 started on gpu-07."),
    entry("b", 5, "note", "ada noted:"),
    { ...entry("c", 24 * 60, "config", "Attempt 2 differs"), differences: [{ name: "driver", before: "570", after: "580" }] },
  ];
  test("is shown by day, the latest first", () => {
    expect(byDay(entries).map(({ entries: own }) => own.map((one) => one.id))).toEqual([["c"], ["b", "a"]]);
  });
  test("is filtered by kind and by every word, those of changes too", () => {
    expect(chosen(entries, ["note"], "").map((one) => one.id)).toEqual(["b"]);
    expect(chosen(entries, [], "GPU-07 attempt").map((one) => one.id)).toEqual(["a"]);
    expect(chosen(entries, [], "driver 580").map((one) => one.id)).toEqual(["c"]);
  });
});

describe("lanes", () => {
  const lanes = lanesFrom([
    { name: "Running", spans: [{ from_ms: 1000, to_ms: 9000, label: "attempt 1", tone: "bad" }] },
    { name: "Notes", spans: [{ from_ms: 5000, to_ms: 5000, label: "hm", tone: "plain" }] },
    { name: "Leases", spans: [{ from_ms: -99_000, to_ms: 99_000, label: "lease", tone: "plain" }] },
  ]);
  test("draw what lasts as bars and moments as marks", () => {
    expect(lanes.map((lane) => [lane.bars.length, lane.marks.length])).toEqual([[1, 0], [0, 1], [1, 0]]);
    expect(lanes[0]?.bars[0]?.tone).toBe("red");
  });
  test("end where the run does, whatever a lease lasts", () => {
    expect(endsOfLanes(lanes, 0)).toEqual([0, 10_000]);
    expect(endsOfLanes([], 60_000)).toEqual([0, 60_000]);
  });
  test("a click finds the attempt of its moment", () => {
    const attempts = [
      { number: 1, admitted_ms: 10, ended_ms: 20 },
      { number: 2, admitted_ms: 30, ended_ms: null },
    ];
    expect([5, 15, 25, 40].map((at) => attemptAt(attempts, at))).toEqual([1, 1, 1, 2]);
    expect(attemptAt([], 1)).toBeNull();
  });
});

describe("the line of a moment", () => {
  const from = Date.UTC(2026, 10, 18, 12, 0, 0);
  const moment = { at: from + 30_000, from, to: from + 60_000 };
  test("is found by the times that lines bear", () => {
    const lines = ["start", "2026-11-18T12:00:10 a", "12:00:29 b", "12:00:31 c"];
    expect(lineAt(lines, moment)).toEqual({ place: 2, exact: true });
    expect(timeOf("no time", moment)).toBeNull();
  });
  test("is guessed by how far the attempt had come", () => {
    expect(lineAt(["a", "b", "c"], moment)).toEqual({ place: 1, exact: false });
    expect(shareOf({ at: 5, from: 9, to: 9 })).toBe(0);
  });
});
