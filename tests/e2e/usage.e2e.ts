/** Usage and the fleet over time in a browser, after a real job on two declared GPUs. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
const PICTURES = process.env.YARD_PICTURES ?? "";

beforeAll(async () => {
  await yard.start(0, "--gpus", "2");
  await yard.call("PUT", "/api/v1/usage/rates", { currency: "EUR", default: { per_gpu_hour: 1000 } });
}, 300_000);
afterAll(() => yard.stop(), 300_000);

describe("usage", () => {
  test("a job runs and ends, so that there is something to count", async () => {
    const wish = { command: ["python3", "-c", "import time; time.sleep(3)"], gpus: 1, name: "first" };
    const { job_ids: ids } = await yard.call<{ job_ids: string[] }>("POST", "/api/v1/jobs", wish);
    const path = `/api/v1/jobs/${ids[0] ?? ""}`;
    const state = async (): Promise<string> => (await yard.call<{ job: { state: string } }>("GET", path)).job.state;
    await expect.poll(state, { timeout: 120_000 }).toBe("succeeded");
  }, 180_000);

  test("shows whose time it was, what it cost, and what a budget has left", async () => {
    await yard.call("PUT", "/api/v1/teams/default/budget", { gpu_hours: 0.000001 });
    for (const dark of [false, true]) {
      const context = await yard.context({ dark });
      const page = await context.newPage();
      await page.goto(`${yard.url}/app/usage`);
      await page.getByRole("heading", { name: "Usage" }).waitFor();
      await page.getByRole("cell", { name: "default", exact: true }).first().waitFor();
      await page.getByText("Productive").first().waitFor();
      await page.getByText("used up: new jobs wait").waitFor();
      expect(await page.getByText(/[1-9][\d.,]* EUR/).count()).toBeGreaterThan(0);
      if (PICTURES !== "") {
        await page.screenshot({ path: join(PICTURES, `usage-${dark ? "dark" : "light"}.png`), fullPage: true });
      }
      await page.getByRole("button", { name: "Job", exact: true }).click();
      await page.getByRole("link", { name: "first" }).first().waitFor();
      expect(page.url()).toContain("by=job");
      const fetched = page.waitForEvent("download");
      await page.getByRole("link", { name: "CSV" }).click();
      expect((await fetched).suggestedFilename()).toContain("-job.csv");
      await context.close();
    }
    expect(yard.complaints).toEqual([]);
  });

  test("shows the fleet over time", async () => {
    for (const dark of [false, true]) {
      const context = await yard.context({ dark });
      const page = await context.newPage();
      await page.goto(`${yard.url}/app/fleet?days=1`);
      const rows = page.getByRole("img", { name: /GPU \d: used/ });
      await rows.first().waitFor();
      expect(await rows.count()).toBe(2);
      await page.getByText("Jobs waiting").waitFor();
      await page.getByText("yard simulate --from live").waitFor();
      await page.getByText("Free", { exact: true }).waitFor();
      const box = await rows.first().boundingBox();
      await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) - 2, (box?.y ?? 0) + 5);
      await page.getByText(/GPU 0, .*: (free|used)/).waitFor();
      if (PICTURES !== "") {
        await page.screenshot({ path: join(PICTURES, `fleet-${dark ? "dark" : "light"}.png`), fullPage: true });
      }
      await context.close();
    }
    expect(yard.complaints).toEqual([]);
  });
});
