import { describe, expect, it } from "vitest";

import { byGravity, hardwareRows, verdictState } from "./node-health";

const NOTHING = { node_class: "cpu", gpu_vendor: "", gpu_model: "", gpu_count: 0, gpu_memory_bytes: 0, driver: "", cuda: "", rocm: "" };

describe("a node's health", () => {
  it("has a word and an icon for each verdict, and for one it does not know", () => {
    expect(["ok", "warn", "fail", "unknown", "odd"].map((word) => verdictState(word).word)).toEqual(["healthy", "warns", "fails", "not looked at", "odd"]);
    expect(new Set(["ok", "warn", "fail", "unknown"].map((word) => verdictState(word).icon)).size).toBe(4);
  });

  it("lists the gravest check first", () => {
    const checks = [
      { name: "ecc", verdict: "ok" },
      { name: "disk", verdict: "warn" },
      { name: "xid", verdict: "fail" },
      { name: "clock", verdict: "ok" },
    ];
    expect(byGravity(checks).map((check) => check.name)).toEqual(["xid", "disk", "clock", "ecc"]);
  });
});

describe("what a node is made of", () => {
  it("leaves out what is not known", () => {
    expect(hardwareRows(NOTHING)).toEqual([["Class", "cpu"]]);
  });

  it("names GPUs, driver and CUDA", () => {
    const found = { ...NOTHING, node_class: "big", gpu_vendor: "nvidia", gpu_model: "A100", gpu_count: 8, driver: "550.54", cuda: "12.4" };
    expect(hardwareRows(found)).toEqual([
      ["Class", "big"],
      ["GPUs", "8 × A100 (nvidia)"],
      ["Driver", "550.54"],
      ["CUDA", "12.4"],
    ]);
  });
});
