/** What jobs are called, why they wait, in which order they stand, and how their life is drawn. */
import { describe, expect, it } from "vitest";

import { spansOf, heldOver } from "./gpu-time";
import { finishAt, jobLanes, laneEnds, leadMetric } from "./job-lanes";
import { jobLine } from "./job-lines";
import { asks, causeWord, jobName, jobState } from "./job-states";
import { axisOf, endOf, merged, place, sectionsOf, ticksOf } from "./queue-axis";
import { isStuck, partsOf, remediesFor, tierOf } from "./reasons";

const MINUTE = 60_000;

describe("the state of a job", () => {
  it("says what goes on within it", () => {
    expect(jobState({ state: "running" }).word).toBe("running");
    expect(jobState({ state: "running", stalled: true })).toMatchObject({ word: "stalled", tone: "violet", icon: "pause" });
    expect(jobState({ state: "running", stopping: true }).word).toBe("stopping");
    expect(jobState({ state: "queued", held: true }).word).toBe("held");
    expect(jobState({ state: "failed", stopping: true }).word).toBe("failed");
  });

  it("names the cause of an attempt's end with its number", () => {
    expect(causeWord({ cause: "exit_code", exit_code: 137 })).toBe("exit code 137");
    expect(causeWord({ cause: "signal", signal: 9 })).toBe("signal 9");
    expect(causeWord({ cause: "node_lost" })).toBe("node lost");
    expect(causeWord({ cause: null })).toBe("");
  });

  it("tells what is asked for, and which of an array it is", () => {
    expect(asks({ gpus: 0.5, nodes: 1 })).toBe("0.5 GPU");
    expect(asks({ gpus: 8, nodes: 2, gpu_types: ["H100"] })).toBe("2 × 4 H100");
    expect(asks({ gpus: 0, nodes: 1, cpus: 4 })).toBe("4 CPUs");
    expect(jobName({ name: "sweep", array_index: 3 })).toBe("sweep[3]");
  });
});

describe("reasons", () => {
  it("take jobs and times out of a sentence", () => {
    expect(partsOf("It needs 2 GPUs; `j7xdakja7rk` holds them in `main` until about 2026-11-16 08:30 UTC")).toEqual([
      { kind: "text", text: "It needs 2 GPUs; " },
      { kind: "job", id: "j7xdakja7rk" },
      { kind: "text", text: " holds them in " },
      { kind: "code", text: "main" },
      { kind: "text", text: " until about " },
      { kind: "time", ms: Date.UTC(2026, 10, 16, 8, 30) },
    ]);
  });

  it("never let a fault of the request look like a wait", () => {
    expect(tierOf("misconfigured")).toMatchObject({ tone: "red", stuck: true });
    expect(isStuck({ held: false, reason: { code: "too_large", tier: "infeasible" } })).toBe(true);
    expect(isStuck({ held: false, reason: { code: "dependency_never", tier: "dependency" } })).toBe(true);
    expect(isStuck({ held: false, reason: { code: "no_free_gpus", tier: "capacity" } })).toBe(false);
  });

  const job = { priority: "normal", gpus: 4, nodes: 1, time_limit_seconds: null };
  const reason = { code: "no_free_gpus", tier: "capacity", sentence: "", remedy: "", holders: ["j1234567"] };
  const nameOf = (id: string): string => (id === "j1234567" ? "llama" : id);

  it("offer the lesser request that starts now first, then priority, then the holder", () => {
    const found = remediesFor(job, reason, [{ gpus: 2, nodes: 1, time_limit_seconds: null, sentence: "Drop to 2 GPUs: starts now." }], nameOf);
    expect(found).toEqual([
      { act: "change", word: "Drop to 2 GPUs: starts now", change: { gpus: 2 } },
      { act: "change", word: "Raise its priority to high", change: { priority: "high" } },
      { act: "look", word: "Look at llama", job: "j1234567" },
    ]);
  });

  it("offer a release to what is held, and a corrected copy to what names no such GPU", () => {
    expect(remediesFor(job, { ...reason, code: "held", tier: "dependency" }, [], nameOf)).toEqual([{ act: "release" }]);
    expect(remediesFor(job, { ...reason, code: "unknown_gpu_type", tier: "misconfigured", holders: [] }, [], nameOf)[0]).toMatchObject({ act: "copy" });
  });
});

describe("the queue", () => {
  const one = (id: string, more: object) => ({ job_id: id, state: "queued", held: false, position: null, submitted_ms: 0, started_ms: null, time_limit_seconds: null, reason: null, ...more });

  it("lists what runs, what waits by place in line, and what cannot start apart", () => {
    const found = sectionsOf([
      one("late", { position: 2 }),
      one("big", { position: 3, reason: { code: "too_large", tier: "infeasible" } }),
      one("held", { held: true }),
      one("soon", { position: 1 }),
      one("second", { state: "running", started_ms: 20 }),
      one("first", { state: "running", started_ms: 10 }),
      one("over", { state: "failed" }),
    ]);
    expect(found.going.map((job) => job.job_id)).toEqual(["first", "second"]);
    expect(found.waiting.map((job) => job.job_id)).toEqual(["soon", "late"]);
    expect(found.stuck.map((job) => job.job_id)).toEqual(["big", "held"]);
  });

  it("shows a job once, as the later list has it", () => {
    const found = merged([[one("a", {}), one("b", {})], [one("a", { state: "running" })]]);
    expect(found.map((job) => [job.job_id, job.state])).toEqual([["a", "running"], ["b", "queued"]]);
  });

  it("has an axis long enough for the last forecast, with a quarter of past", () => {
    const now = 1_000_000 * MINUTE;
    const axis = axisOf(now, [now + 25 * MINUTE, null, undefined]);
    expect(axis.to - now).toBe(30 * MINUTE);
    expect(place(axis, now)).toBeCloseTo(25);
    expect(place(axis, axis.from - MINUTE)).toBe(0);
    expect(axisOf(now, [now + 999 * 3600 * 1000]).to - now).toBe(48 * 3600 * 1000);
    const ticks = ticksOf(axis, 0);
    expect(ticks.length).toBeGreaterThan(3);
    expect(ticks.every((tick) => tick % MINUTE === 0 && tick >= axis.from && tick <= axis.to)).toBe(true);
  });

  it("knows the end of a job only by its limit", () => {
    expect(endOf({ started_ms: 1000, time_limit_seconds: 60 })).toBe(61_000);
    expect(endOf({ started_ms: 1000, time_limit_seconds: null })).toBeNull();
  });
});

describe("the lanes of a job", () => {
  const attempt = { number: 1, state: "failed", cause: "exit_code", sentence: null, exit_code: 1, signal: null, admitted_ms: 100, started_ms: 110, ended_ms: 200, resume_step: null, lost_steps: 3 };
  const detail = {
    job: { state: "running", submitted_ms: 50, ended_ms: null },
    attempts: [attempt, { ...attempt, number: 2, state: "running", cause: null, exit_code: null, admitted_ms: 260, ended_ms: null, resume_step: 25, lost_steps: null }],
    checkpoints: [{ step: 25, attempt: 1, created_ms: 180 }],
  };

  it("show each wait, each attempt with its cause, checkpoints and alerts", () => {
    const [queued, attempts, checkpoints, alerts] = jobLanes(detail, [{ kind: "job.loss_nan", time_ms: 300, data: { sentence: "loss is NaN" } }, { kind: "job.admitted", time_ms: 100, data: {} }], 400);
    expect(queued?.bars.map((bar) => [bar.from, bar.to])).toEqual([[50, 100], [200, 260]]);
    expect(attempts?.bars.map((bar) => [bar.word, bar.sign, bar.tone, bar.to])).toEqual([["1 · exit code 1", "cross", "red", 200], ["2", null, "blue", 400]]);
    expect(attempts?.bars.map((bar) => bar.label)).toEqual(["attempt 1 failed: exit code 1, 3 steps lost", "attempt 2 running, from step 25"]);
    expect(checkpoints?.marks).toEqual([{ at: 180, tone: "green", label: "checkpoint at step 25, attempt 1" }]);
    expect(alerts?.marks).toEqual([{ at: 300, tone: "red", label: "loss is NaN" }]);
  });

  it("end with the job, not with the clock, once it is over", () => {
    const over = { ...detail, job: { state: "failed", submitted_ms: 50, ended_ms: 5000 }, attempts: [attempt] };
    expect(laneEnds(over, 99_999_999)[1]).toBeLessThan(7000);
    expect(laneEnds(detail, 99_999_999)[1]).toBeGreaterThan(99_999_999);
  });

  it("stand over the loss where there is one", () => {
    expect(leadMetric(["accuracy", "system/cpu", "loss", "val_loss"])).toBe("loss");
    expect(leadMetric(["acc", "val/loss"])).toBe("val/loss");
    expect(leadMetric(["system/cpu"])).toBeNull();
  });

  it("foresee the end from the pace of this attempt alone", () => {
    expect(finishAt({ started_ms: 0, resume_step: 100 }, 200, 400, 1000)).toBe(3000);
    expect(finishAt({ started_ms: 0, resume_step: null }, 1, 400, 1000)).toBeNull();
    expect(finishAt({ started_ms: 0, resume_step: null }, 400, 400, 1000)).toBeNull();
  });
});

describe("GPUs held over time", () => {
  const job = { job_id: "j", state: "succeeded", team: "a", gpus: 2, attempt: 1, started_ms: 0, ended_ms: 100 };

  it("count attempts, not the wait between them", () => {
    const spans = spansOf(job, [{ admitted_ms: 0, ended_ms: 25 }, { admitted_ms: 75, ended_ms: 100 }], 100);
    const held = heldOver(spans, 0, 100, 4);
    expect(held.bins.map((bin) => bin.by[0])).toEqual([2, 0, 0, 2]);
    expect(held.hours[0]).toBeCloseTo((2 * 50) / 3_600_000);
  });

  it("keep teams apart and cut what lies outside", () => {
    const held = heldOver([{ team: "b", gpus: 1, from: -50, to: 500 }, { team: "a", gpus: 4, from: 50, to: 100 }], 0, 100, 2);
    expect(held.teams).toEqual(["a", "b"]);
    expect(held.bins.map((bin) => bin.by)).toEqual([[0, 1], [4, 1]]);
    expect(spansOf({ ...job, gpus: 0 }, undefined, 1)).toEqual([]);
    expect(spansOf({ ...job, state: "queued", ended_ms: null }, undefined, 1)).toEqual([]);
  });
});

describe("yard lines", () => {
  it("carry the changes of a requeue", () => {
    expect(jobLine.requeue("j1", { gpus: 2, time_limit_seconds: 5400, priority: "high", anywhere: true })).toBe("yard requeue j1 --gpus 2 --time 1h30m --priority high --anywhere");
    expect(jobLine.drain("g01", "ECC errors")).toBe("yard drain g01 --note 'ECC errors'");
    expect(jobLine.logs("j1", 2)).toBe("yard logs -f j1 --rank 2");
  });
});
