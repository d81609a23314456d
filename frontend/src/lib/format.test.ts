// @vitest-environment node
import { describe, expect, test } from "vitest";

import { ago, bytes, count, duration, exact, full, short, signed } from "./format";

describe("numbers", () => {
  test.each([
    [0.123456, "0.123"],
    [1234.6, "1,235"],
    [12, "12"],
    [0.00001234, "1.23e-5"],
    [12_345_678, "1.23e7"],
    [1e-5, "1e-5"],
    [0, "0"],
    [0.5, "0.5"],
    [-2.5, "-2.5"],
    [null, "—"],
    [undefined, "—"],
    ["NaN", "NaN"],
    [Number.POSITIVE_INFINITY, "∞"],
    [Number.NaN, "NaN"],
  ])("%s is read as %s", (value, text) => {
    expect(short(value)).toBe(text);
  });

  test("the full value keeps every digit", () => {
    expect(full(0.123456789)).toBe("0.123456789");
    expect(full(null)).toBe("—");
  });

  test("a difference carries its sign", () => {
    expect([signed(0.25), signed(-0.25), signed(0)]).toEqual(["+0.25", "−0.25", "0"]);
  });

  test("sizes come in units of a thousand", () => {
    expect([bytes(999), bytes(1400), bytes(2_000_000_000), bytes(undefined)]).toEqual(["999 B", "1.4 kB", "2 GB", "—"]);
  });

  test("one thing is not many", () => {
    expect([count(1, "run"), count(2000, "run")]).toEqual(["1 run", "2,000 runs"]);
  });
});

describe("times", () => {
  test.each([
    [0, "0s"],
    [340, "340ms"],
    [3200, "3.2s"],
    [41_000, "41s"],
    [125_000, "2m05"],
    [41 * 60_000, "41m"],
    [7_800_000, "2h10"],
    [200 * 3_600_000, "8d 8h"],
    [null, "—"],
  ])("%s ms is %s", (span, text) => {
    expect(duration(span)).toBe(text);
  });

  test("what is recent is told by distance, what is old by date", () => {
    const now = new Date(2026, 7, 16, 12).getTime();
    expect(ago(now - 3000, now)).toBe("just now");
    expect(ago(now + 3000, now)).toBe("just now");
    expect(ago(now - 42_000, now)).toBe("42s ago");
    expect(ago(now - 5 * 60_000, now)).toBe("5m ago");
    expect(ago(now - 3 * 3_600_000, now)).toBe("3h ago");
    expect(ago(now - 3 * 86_400_000, now)).toBe("3d ago");
    expect(ago(new Date(2026, 1, 3).getTime(), now)).toBe("3 Feb");
    expect(ago(new Date(2024, 1, 3).getTime(), now)).toBe("3 Feb 2024");
    expect(ago(null, now)).toBe("—");
  });

  test("the exact time is local and sortable", () => {
    expect(exact(new Date(2026, 0, 2, 3, 4, 5).getTime())).toBe("2026-01-02 03:04:05");
    expect(exact(undefined)).toBe("—");
  });
});
