/** Charts of one's own: an expression over metrics, kept for the team, on the runs page and on a run's. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
let food = "";
let run = "";

beforeAll(async () => {
  await yard.start(0.1);
  food = await yard.experiment("food11-classifier");
  run = (await yard.runs(food))[0] ?? "";
}, 300_000);
afterAll(() => yard.stop(), 300_000);

describe("custom charts", () => {
  test("an expression is checked, drawn, kept for the team and removed", async () => {
    const { metrics } = await yard.call<{ metrics: string[] }>("GET", `/api/v1/runs/names?experiment_id=${food}`);
    const [first, second] = metrics.filter((name) => !name.startsWith("system/"));
    const page = await yard.open(`/app/runs?exp=${food}`);
    await page.getByRole("button", { name: "Custom chart" }).click();
    const dialog = page.getByRole("dialog");
    const y = dialog.getByLabel("Vertical axis");
    await y.fill(`\`${first}\` - nonsense`);
    await dialog.getByText("No metric is named nonsense.").waitFor();
    expect(await dialog.getByRole("button", { name: "Save for the team" }).isDisabled()).toBe(true);
    await y.fill(`\`${first}\` - \`${second}\``);
    await dialog.getByLabel("Title").fill("the gap");
    await dialog.getByRole("button", { name: "Save for the team" }).click();
    const chart = page.getByRole("figure", { name: "Chart of the gap" });
    await expect.poll(() => chart.locator(".panel-plot").getAttribute("data-points").then(Number)).toBeGreaterThan(10);
    await chart.locator("canvas").first().waitFor();

    const other = await yard.open(`/app/runs/${run}`);
    const same = other.getByRole("figure", { name: "Chart of the gap" });
    await same.locator("canvas").first().waitFor();
    await same.hover();
    await same.getByRole("button", { name: "Remove the gap" }).click();
    await same.waitFor({ state: "detached" });
    expect(yard.complaints).toEqual([]);
  });
});
