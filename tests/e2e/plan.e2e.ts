/** Plans and the fine-tuning tab in a browser: choosing, sorting, what is refused, predicted beside actual. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
const PICTURES = process.env.YARD_PICTURES ?? "";

beforeAll(() => yard.start(0), 300_000);
afterAll(() => yard.stop(), 300_000);

/** A run as `yard finetune` leaves it. */
async function tuned(): Promise<string> {
  const made = await yard.call<{ run: { info: { run_id: string; artifact_uri: string } } }>(
    "POST",
    "/api/2.0/mlflow/runs/create",
    { experiment_id: "0", start_time: Date.now(), run_name: "chat-lora", tags: [{ key: "yard.finetune.method", value: "lora" }] },
  );
  const { run_id: run, artifact_uri: place } = made.run.info;
  const last = {
    mfu: 0.51,
    tokens_per_second: 15_000,
    "memory/peak_gib": 52,
    "memory/weights_gib": 16,
    "memory/activations_gib": 33,
    "plan/predicted_peak_gib": 54.6,
    "plan/actual_peak_gib": 52,
  };
  const metrics = Object.entries(last).flatMap(([key, value]) =>
    [1, 2].map((step) => ({ key, value, timestamp: Date.now(), step })),
  );
  await yard.call("POST", "/api/2.0/mlflow/runs/log-batch", { run_id: run, metrics });
  const folder = new URL(place).pathname.replace(/^\/+/, "");
  for (const step of [10, 20]) {
    const answer = await fetch(`${yard.url}/api/2.0/mlflow-artifacts/artifacts/${folder}/samples/step-000000${step}.md`, {
      method: "PUT",
      headers: { authorization: `Bearer ${yard.token}` },
      body: `> the cat\n\nsat at step ${step}`,
    });
    expect(answer.status).toBe(200);
  }
  return run;
}

describe("planning", () => {
  test("ranks plans, keeps choices in the address and refuses with what to do", async () => {
    for (const dark of [false, true]) {
      const context = await yard.context({ dark });
      const page = await context.newPage();
      await page.goto(`${yard.url}/app/plan`);
      await page.getByText(/^yes: on 1 x H200/).waitFor();
      await page.getByLabel("GPU", { exact: true }).selectOption("L4");
      await page.getByText(/^yes: on 1 x L4/).waitFor();
      expect(page.url()).toContain("gpu=L4");
      expect(await page.getByRole("img", { name: /^Peak memory: weights/ }).count()).toBeGreaterThan(1);
      await page.getByRole("button", { name: "Peak" }).click();
      expect(await page.getByRole("columnheader", { name: "Peak" }).getAttribute("aria-sort")).toBe("ascending");
      await page.getByText("yard plan llama-3.1-8b --gpu L4").waitFor();
      if (PICTURES !== "") {
        await page.screenshot({ path: join(PICTURES, `plan-${dark ? "dark" : "light"}.png`), fullPage: true });
      }
      await page.getByRole("button", { name: "Fix choices" }).click();
      await page.getByLabel("Method").selectOption("full");
      await page.getByText(/^no: on 1 x L4 even the smallest way needs/).waitFor();
      await page.getByText("What would make it fit").waitFor();
      await page.getByLabel("GPUs per node").fill("3");
      await page.getByText("cannot be split over 3 GPUs").waitFor();
      await page.getByLabel("GPUs per node").fill("many");
      await page.getByText("GPUs per node must be a whole number").waitFor();
      await context.close();
    }
    expect(yard.complaints.filter((one) => !one.includes("400"))).toEqual([]);
  });

  test("a fine-tuning run shows its plan beside what came of it, and its samples", async () => {
    const run = await tuned();
    for (const dark of [false, true]) {
      const context = await yard.context({ dark });
      const page = await context.newPage();
      await page.goto(`${yard.url}/app/runs/${run}?tab=finetune`);
      await page.getByRole("row", { name: /Peak memory 54\.6 GiB 52 GiB 5\.0 %/ }).waitFor();
      await page.getByRole("img", { name: "weights 16 GiB, activations 33 GiB" }).waitFor();
      await page.getByText("sat at step 20").waitFor();
      await page.getByLabel("Step", { exact: true }).press("Home");
      await page.getByText("sat at step 10").waitFor();
      if (PICTURES !== "") {
        await page.screenshot({ path: join(PICTURES, `finetune-${dark ? "dark" : "light"}.png`), fullPage: true });
      }
      await context.close();
    }
  });
});
