// @vitest-environment node
import { expect, test } from "vitest";

import { sentenceOf } from "./event-sentences";

const event = (kind: string, data: Record<string, unknown>, actor = "system", subject = "job") => ({ kind, actor, subject, subject_id: "j1", data });
const said = (one: ReturnType<typeof event>, name: string): string => {
  const { before, after } = sentenceOf(one);
  return `${before}${name}${after}`;
};

test("events are sentences", () => {
  expect(said(event("job.running", { attempt: 2, nodes: ["vm"], resume_step: 80, lost_steps: 30 }), "llama-sft")).toBe("llama-sft resumed at step 80 on vm; 30 steps lost");
  expect(said(event("job.running", { attempt: 1, nodes: ["vm"], resume_step: null }), "llama-sft")).toBe("llama-sft started on vm");
  expect(said(event("job.submitted", { queue: "default", priority: "normal", gpus: 2, nodes: 1 }, "ada"), "sweep")).toBe("ada submitted sweep to queue default: 2 GPUs, normal priority");
  expect(said(event("job.failed", { sentence: "The command ended with exit code 3." }), "x")).toBe("x failed: The command ended with exit code 3");
  expect(said(event("node.joined", { gpus: 4 }, "system", "node"), "vm")).toBe("Node vm joined with 4 GPUs");
  expect(said(event("scorer.registered", {}, "ada", "scorer"), "s")).toBe("ada registered scorer s");
});
