import { describe, expect, test } from "vitest";

import { curve, hours, money, months, parts, percent, stripes } from "./usage";

describe("usage", () => {
  test("parts of a bar are in order and make a hundred percent", () => {
    const found = parts({ free: 1, productive: 2, lost: 1 });
    expect(found.map(({ name }) => name)).toEqual(["productive", "lost", "free"]);
    expect(found.reduce((sum, one) => sum + one.percent, 0)).toBe(100);
    expect(parts({ free: 0 })).toEqual([]);
  });

  test("numbers are said as people read them", () => {
    expect([hours(0), hours(0.004), hours(12.34), hours(12345)]).toEqual(["0", "0.0040", "12.3", "12,345"]);
    expect([percent(null), percent(0.914)]).toEqual(["—", "91.4 %"]);
    expect(money(1234.5, "EUR")).toBe("1,234.50 EUR");
  });

  test("months go back over the turn of the year", () => {
    expect(months(Date.UTC(2026, 1, 28, 23), 3)).toEqual(["2026-02", "2026-01", "2025-12"]);
  });

  test("equal neighbours are one stripe", () => {
    expect(stripes("uuff", "9999")).toBe(
      "linear-gradient(to right, var(--blue) 0.000% 50.000%, var(--grey-soft) 50.000% 100.000%)",
    );
    expect(stripes("", "")).toBe("none");
    expect(stripes("u", "4")).toContain("50%, var(--grey-soft)");
  });

  test("a curve fills its box", () => {
    expect(curve([0, 2, 1], 2)).toBe("0.00,100.00 50.00,0.00 100.00,50.00");
  });
});
