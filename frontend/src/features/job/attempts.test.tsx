/** The table of attempts tells how each ended and what changed around it. */
import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it } from "vitest";

import type { Attempt } from "../../api/jobs";
import { Attempts, environmentChange, gpusOf } from "./attempts";

afterEach(cleanup);

const first = {
  attempt_id: "j-a1",
  number: 1,
  state: "failed",
  cause: "exit_code",
  sentence: "The command ended with exit code 1.",
  exit_code: 1,
  signal: null,
  error_line: "RuntimeError: boom",
  nodes: ["g01"],
  placement: [{ node: "g01", gpus: [0, 1], share: 1, cpus: 0, memory_bytes: 0 }],
  admitted_ms: 0,
  ended_ms: 5000,
  resume_step: null,
  step: 31,
  lost_steps: 6,
  environment: { commit: "abc", pip: [] },
  notes: [],
  log_lost_bytes: 0,
  peak_memory_bytes: null,
} as unknown as Attempt;
const second = { ...first, attempt_id: "j-a2", number: 2, state: "running", cause: null, sentence: null, error_line: null, ended_ms: null, environment: { commit: "def", pip: [], digest: "x" } } as Attempt;

describe("attempts", () => {
  it("show cause, error line, GPUs, and what changed in the environment", async () => {
    const chosen: number[] = [];
    render(<Attempts attempts={[first, second]} onLog={(attempt) => chosen.push(attempt)} />);
    expect(screen.getByText("exit code 1")).toBeTruthy();
    expect(screen.getByText("RuntimeError: boom")).toBeTruthy();
    expect(screen.getByText("changed: commit")).toBeTruthy();
    expect(screen.getAllByText("6 steps lost").length).toBeGreaterThan(0);
    await userEvent.click(screen.getAllByRole("button", { name: "Log" })[0] as HTMLElement);
    expect(chosen).toEqual([2]);
  });

  it("say nothing of a change where the environment is the same", () => {
    expect(environmentChange({ a: 1, digest: "x" }, { a: 1, digest: "y" })).toEqual([]);
    expect(environmentChange({ a: 1 }, undefined)).toEqual([]);
    expect(gpusOf({ placement: [{ node: "n", gpus: [1], share: 0.5, cpus: 0, memory_bytes: 0 }] })).toBe("1 (0.5 of it)");
  });
});
