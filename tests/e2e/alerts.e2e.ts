/** Alerts: a rule written on the page, what it finds, the bell, and what fired on the run's page. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
let run = "";

async function log(value: number, step: number): Promise<void> {
  await yard.call("POST", "/api/2.0/mlflow/runs/log-metric", { run_id: run, key: "loss", value, timestamp: Date.now(), step });
}

beforeAll(async () => {
  await yard.start(0);
  const made = await yard.call<{ run: { info: { run_id: string } } }>("POST", "/api/2.0/mlflow/runs/create", { experiment_id: "0", run_name: "calm-hen" });
  run = made.run.info.run_id;
  await log(2, 1);
}, 300_000);
afterAll(() => yard.stop(), 300_000);

describe("alerts", () => {
  test.each([false, true])("are written, fire and are acknowledged (dark: %s)", async (dark) => {
    const page = await yard.open("/app/alerts?tab=rules", { dark });
    const rule = dark ? "loss > 20" : "loss > 10";
    await page.getByLabel("New rule").fill("loss is high");
    await page.getByRole("button", { name: "Add rule" }).click();
    await page.getByRole("alert").getByText("is not understood").waitFor();
    await page.getByLabel("New rule").fill(rule);
    await page.getByRole("button", { name: "Add rule" }).click();
    await page.getByRole("cell", { name: rule, exact: true }).waitFor();
    await log(dark ? 30 : 12, dark ? 3 : 2);
    await page.getByRole("group", { name: "Part of alerts" }).getByRole("button", { name: "Incidents" }).click();
    const row = page.locator("table.incidents tr").filter({ hasText: rule });
    await row.getByText("calm-hen").waitFor({ timeout: 120_000 });
    if (process.env.YARD_PICTURES !== undefined) {
      await page.screenshot({ path: `${process.env.YARD_PICTURES}/alerts-${dark ? "dark" : "light"}.png` });
    }
    await page.getByRole("button", { name: /Inbox, \d+ unread/ }).click();
    await page.locator(".inbox-line").filter({ hasText: `(${rule.slice(5)})` }).first().waitFor();
    if (process.env.YARD_PICTURES !== undefined) {
      await page.screenshot({ path: `${process.env.YARD_PICTURES}/inbox-${dark ? "dark" : "light"}.png` });
    }
    await page.getByRole("menuitem", { name: "Mark all as read" }).click();
    await page.getByRole("button", { name: "Inbox", exact: true }).waitFor({ timeout: 120_000 });
    await row.getByRole("button", { name: "Acknowledge" }).click();
    await row.getByText("Acknowledged").waitFor();
    await row.getByRole("link", { name: "calm-hen" }).click();
    await page.getByRole("region", { name: "Alerts" }).getByText(rule).first().waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
    await page.context().close();
  }, 240_000);
});
