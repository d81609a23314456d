import { describe, expect, it } from "vitest";

import { comparisons, memoryParts, samplesOf } from "./finetune";

describe("a fine-tuning run", () => {
  it("tells its memory by part, without what is zero", () => {
    const last = new Map([
      ["memory/weights_gib", 12],
      ["memory/gradients_gib", 0],
      ["memory/activations_gib", 3],
    ]);
    expect(memoryParts(last)).toEqual([
      { part: "weights", gib: 12 },
      { part: "activations", gib: 3 },
    ]);
  });

  it("compares what was planned with what came of it", () => {
    const last = new Map([
      ["plan/predicted_peak_gib", 11],
      ["plan/actual_peak_gib", 10],
      ["plan/predicted_step_seconds", 2],
    ]);
    const [memory, step] = comparisons(last);
    expect(memory?.off).toBeCloseTo(0.1);
    expect(step).toEqual({ what: "Step time", unit: "s", predicted: 2, actual: null, off: null });
    expect(comparisons(new Map())).toEqual([]);
  });

  it("finds its samples in the order of steps", () => {
    expect(samplesOf(["samples/step-00000020.md", "samples/notes.txt", "samples/step-00000003.md"])).toEqual([
      { step: 3, path: "samples/step-00000003.md" },
      { step: 20, path: "samples/step-00000020.md" },
    ]);
  });
});
