/** What keys and bare words do, in a browser against a real server that holds the demo project. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
let food = "";

beforeAll(() => yard.start(0.3).then(async () => {
  food = await yard.experiment("food11-classifier");
}), 300_000);
afterAll(() => yard.stop(), 300_000);

/** The rows of a table that has settled on a number of them; while it asks, it has fewer than none. */
async function settled(page: Page, wanted: (rows: number) => boolean): Promise<number> {
  const rows = (): Promise<number> => page.locator("[role=grid]").getAttribute("aria-rowcount").then((text) => Number(text) - 1);
  await expect.poll(() => rows().then((count) => count >= 0 && wanted(count)), { timeout: 120_000 }).toBe(true);
  return rows();
}

describe("by keyboard and by bare words", () => {
  test("every step of a filter is typed over more than a hundred runs, and words look for names", async () => {
    const made = (await yard.call("POST", "/api/2.0/mlflow/experiments/create", { name: "many runs" })) as { experiment_id: string };
    for (let number = 0; number < 130; number += 1) {
      const name = number % 10 === 0 ? `grey-heron-${number}` : `finch-${number}`;
      const { run } = (await yard.call("POST", "/api/2.0/mlflow/runs/create", { experiment_id: made.experiment_id, run_name: name, start_time: 1000 + number })) as { run: { info: { run_id: string } } };
      await yard.call("POST", "/api/2.0/mlflow/runs/log-batch", { run_id: run.info.run_id, params: [{ key: "lr", value: `1e-${number % 7}` }], metrics: [{ key: "loss", value: number, step: 0, timestamp: 1 }] });
    }
    const page = await yard.open(`/app/runs?exp=${made.experiment_id}`);
    await settled(page, (rows) => rows === 130);
    const filter = page.getByRole("combobox", { name: "Filter" });
    for (const text of ["params.lr =", "params.lr = '1e-3'", "metrics.loss >= 100", "tags.mlflow.runName = 'finch-1'", "attributes.status =", "params.`lr` LIKE '1e-%'", "params.lr IS NOT NULL AND metrics.loss <"]) {
      await filter.fill("");
      await filter.pressSequentially(text);
      await expect.poll(() => filter.inputValue()).toBe(text);
      await page.getByRole("grid").waitFor();
    }
    await filter.fill("heron grey");
    await filter.press("Escape");
    await filter.press("Enter");
    expect(await settled(page, (rows) => rows < 130)).toBe(13);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search or jump" }).fill("heron");
    await page.getByRole("option", { name: /grey-heron/ }).first().waitFor();
    expect(await page.getByRole("option").first().textContent()).toMatch(/heron.*run ·/);
    await page.context().close();
  });

  test("a menu is opened, walked, left and closed by keys alone", async () => {
    const page = await yard.open(`/app/runs?exp=${food}`);
    await settled(page, (rows) => rows > 10);
    const button = page.getByRole("button", { name: "You" });
    await button.focus();
    await page.keyboard.press("Enter");
    const items = page.getByRole("menu").locator(".menu-item");
    await items.first().waitFor();
    const at = (): Promise<number> => items.evaluateAll((all) => all.findIndex((one) => one === document.activeElement));
    await expect.poll(at).toBe(0);
    await page.keyboard.press("ArrowDown");
    expect(await at()).toBe(1);
    await page.keyboard.press("ArrowUp");
    expect(await at()).toBe(0);
    await page.keyboard.press("Shift+Tab");
    expect(await at()).toBe((await items.count()) - 1);
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByRole("menu").count()).toBe(0);
    await expect.poll(() => button.evaluate((one) => one === document.activeElement)).toBe(true);
    await page.context().close();
  });

  test("runs that are charted together have colours of their own", async () => {
    const page = await yard.open(`/app/runs?exp=${food}`);
    await settled(page, (rows) => rows > 10);
    const filled = async (): Promise<string[]> =>
      (await page.locator(".grid-name .dot").evaluateAll((dots) => dots.map((dot) => (dot as HTMLElement).style.background))).filter((one) => one.startsWith("rgb"));
    await expect.poll(async () => (await filled()).length, { timeout: 120_000 }).toBeGreaterThanOrEqual(10);
    const colours = await filled();
    expect(new Set(colours).size).toBe(colours.length);
    await page.context().close();
  });

  test("the runs page shows its first metric at once, filters by a click, charts groups, and goes back step by step", async () => {
    const page = await yard.open(`/app/runs?exp=${food}`);
    const all = await settled(page, (rows) => rows > 10);
    const head = page.getByRole("columnheader", { name: "val_accuracy", exact: true });
    await head.waitFor();
    const [box, grid] = [await head.boundingBox(), await page.getByRole("grid").boundingBox()];
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual((grid?.x ?? 0) + (grid?.width ?? 0));
    const chips = page.getByRole("group", { name: "Quick filters" });
    await chips.getByRole("button", { name: "Failed" }).click();
    const failed = await settled(page, (rows) => rows < all);
    expect(failed).toBe((await yard.runs(food, "attributes.status = 'FAILED'")).length);
    await page.goBack();
    await settled(page, (rows) => rows === all);
    await page.goto(`${yard.url}/app/runs?exp=${food}&group=param:model`);
    await page.getByText(/mean and range of \d+ groups/).waitFor();
    await page.context().close();
  });

  test("a run opens on its charts, the main one wide; images have a step slider, tables filter", async () => {
    const { run } = await yard.call<{ run: { info: { run_id: string; artifact_uri: string } } }>("POST", "/api/2.0/mlflow/runs/create", { experiment_id: food, run_name: "with-media", start_time: Date.now() });
    const metrics = ["train_loss", "val_accuracy"].flatMap((key) => [0, 10, 20].map((step) => ({ key, value: step + 1, step, timestamp: 1 })));
    await yard.call("POST", "/api/2.0/mlflow/runs/log-batch", { run_id: run.info.run_id, metrics });
    const root = `/api/2.0/mlflow-artifacts/artifacts/${run.info.artifact_uri.replace("mlflow-artifacts:/", "")}`;
    const put = async (path: string, body: string | Uint8Array<ArrayBuffer>): Promise<void> => {
      const answer = await fetch(`${yard.url}${root}/${path.split("/").map(encodeURIComponent).join("/")}`, { method: "PUT", headers: { authorization: `Bearer ${yard.token}` }, body });
      expect(answer.ok).toBe(true);
    };
    const dot = Uint8Array.from(atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="), (sign) => sign.charCodeAt(0));
    for (const step of [0, 10]) {
      await put(`images/digits+step+${step}+timestamp+${step}+uuid.png`, dot);
    }
    await put("eval.json", JSON.stringify({ columns: ["question", "score"], data: [["why", 0.5], ["how", 0.25], ["who", 1]] }));
    const page = await yard.open(`/app/runs/${run.info.run_id}`);
    await page.getByRole("tab", { name: "Charts", selected: true }).waitFor();
    const wide = await page.locator(".lead-panel .panel").boundingBox();
    const plain = await page.locator(".panels .panel").first().boundingBox();
    expect(wide?.width ?? 0).toBeGreaterThan(1.4 * (plain?.width ?? 0));
    await page.getByRole("tab", { name: "Media" }).click();
    const images = page.getByRole("region", { name: "Images" });
    await images.getByRole("img", { name: /digits of with-media at step 10/ }).waitFor();
    await images.getByLabel("Step").fill("0");
    await images.getByRole("img", { name: /at step 0/ }).waitFor();
    await page.getByLabel("Filter rows").fill("wh");
    await page.getByText("2 of 3 rows, 2 columns").waitFor();
    await page.context().close();
  });
});
