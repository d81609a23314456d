import { describe, expect, it } from "vitest";

import { DEFAULTS, planBody, planForm, planLine, planSearch, slices, sorted, type Plan } from "./plans";

const plan = (part: Partial<Plan>): Plan => ({
  summary: "lora, bf16",
  setup: { micro_batch: 1, accumulation: 16, method: "lora", sharding: "none" },
  memory_bytes: { weights: 40, gradients: 0, activations: 10, total: 50 },
  needed_bytes: 60,
  host_bytes: 0,
  step_seconds: { total: 1 },
  tokens_per_second: 1000,
  mfu: 0.4,
  gpu_hours: 2,
  price: null,
  source: "closed form",
  ...part,
});

describe("the request", () => {
  it("is in the address, without what is usual", () => {
    const form = { ...DEFAULTS, gpu: "L4", method: "lora" };
    expect(planSearch(form)).toEqual({ gpu: "L4", method: "lora" });
    expect(planForm(planSearch(form))).toEqual(form);
  });

  it("becomes a body with the choices that are made", () => {
    expect(planBody({ ...DEFAULTS, method: "qlora", packing: "1" })).toEqual({
      body: {
        model: "llama-3.1-8b",
        gpu: "H200",
        gpus: 1,
        nodes: 1,
        seq: 2048,
        global_batch: 16,
        tokens: 1e8,
        method: "qlora",
        packing: true,
      },
    });
  });

  it.each(["", "0", "1.5", "many"])("says what is wrong with %j GPUs", (gpus) => {
    expect(planBody({ ...DEFAULTS, gpus })).toEqual({ fault: "GPUs per node must be a whole number of at least 1." });
  });

  it("has a command that plans the same", () => {
    expect(planLine({ ...DEFAULTS, gpus: "8", sharding: "zero3", packing: "1" })).toBe(
      "yard plan llama-3.1-8b --gpus 8 --sharding zero3 --packing",
    );
  });
});

describe("plans", () => {
  it("have slices for the parts that need memory", () => {
    expect(slices(plan({}), 100)).toEqual([
      { part: "weights", bytes: 40, share: 0.4 },
      { part: "activations", bytes: 10, share: 0.1 },
    ]);
  });

  it("are sorted by a column, those without a price last", () => {
    const found = [plan({ price: null }), plan({ price: 3 }), plan({ price: 2 })];
    expect(sorted(found, "price", false).map((one) => one.rank)).toEqual([3, 2, 1]);
    expect(sorted(found, "rank", false).map((one) => one.rank)).toEqual([1, 2, 3]);
    expect(sorted([plan({ mfu: 0.1 }), plan({ mfu: 0.5 })], "mfu", true).map((one) => one.rank)).toEqual([2, 1]);
  });
});
