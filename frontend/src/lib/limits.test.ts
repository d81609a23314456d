import { describe, expect, it } from "vitest";

import { limitText, readLimit } from "./limits";

describe("limits", () => {
  it("reads nothing as no limit and rubbish as rubbish", () => {
    expect(readLimit(" ", "number")).toBeNull();
    expect(readLimit("four", "number")).toBeUndefined();
    expect(readLimit("-1", "number")).toBeUndefined();
    expect(readLimit("1.5", "whole")).toBeUndefined();
    expect(readLimit("soon", "time")).toBeUndefined();
  });

  it("reads what it writes", () => {
    for (const [value, kind] of [[1.5, "number"], [8, "whole"], [9000, "time"], [64 * 1024 ** 3, "memory"]] as const) {
      expect(readLimit(limitText(value, kind), kind)).toBe(value);
    }
  });
});
