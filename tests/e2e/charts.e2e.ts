/** Custom charts and reports: expressions over metrics kept for the team, and pages of Markdown with live charts. */
import { readFileSync } from "node:fs";
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
    await dialog.getByLabel("Title", { exact: true }).fill("the gap");
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

describe("reports", () => {
  test("are written beside a preview, read with live charts, and saved as one HTML file that needs no server", async () => {
    const { metrics } = await yard.call<{ metrics: string[] }>("GET", `/api/v1/runs/names?experiment_id=${food}`);
    const metric = metrics.find((name) => name.includes("loss")) ?? "";
    const page = await yard.open("/app/reports");
    await page.getByText("No reports yet").waitFor();
    await page.getByRole("button", { name: "New report" }).first().click();
    await page.getByLabel("Title", { exact: true }).fill("What the learning rate does");
    const area = page.getByLabel("Text of the report, in Markdown");
    await area.fill("# Findings\n\n```runs\nname: best\nexperiment: food11-classifier\nlimit: 3\n```\n\n```chart\nmetric: x\nruns: nobody\n```\n");
    await page.getByText("No block of this report defines the run set “nobody”").waitFor();
    await area.fill(`# Findings\n\n\`\`\`runs\nname: best\nexperiment: food11-classifier\norder: metrics.${metric}\nlimit: 3\n\`\`\`\n\n\`\`\`chart\nmetric: ${metric}\nruns: best\n\`\`\`\n`);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "Edit" }).waitFor();

    const token = await yard.member("rita", "default");
    const context = await yard.context({ signedIn: false });
    await context.request.post(`${yard.url}/api/v1/session`, { data: { token } });
    const reader = await context.newPage();
    await reader.goto(page.url());
    const chart = reader.getByRole("figure", { name: `Chart of ${metric}` });
    await expect.poll(() => chart.locator(".panel-plot").getAttribute("data-points").then(Number)).toBeGreaterThan(10);
    expect(await reader.getByRole("list", { name: "Lines of the chart" }).getByRole("listitem").count()).toBe(3);
    expect(await reader.locator(".report-runs tbody tr").count()).toBe(3);

    await reader.getByRole("button", { name: "Export" }).click();
    const download = reader.waitForEvent("download");
    await reader.getByRole("menuitem", { name: "HTML file" }).click();
    const file = await (await download).path();
    const html = readFileSync(file, "utf8");
    expect(html).toContain("What the learning rate does");
    expect(html).toContain("data:image/png;base64,");
    expect(html).not.toMatch(/<script|<canvas|<button/);
    // Read on its own, with everything else out of reach.
    const alone = await context.newPage();
    await alone.route("http://**", (route) => route.abort());
    await alone.setContent(html);
    expect(await alone.locator("img").evaluate((image: HTMLImageElement) => image.naturalWidth)).toBeGreaterThan(300);
    await alone.close();

    // Paper has neither the rail nor the buttons.
    await reader.emulateMedia({ media: "print" });
    expect(await reader.locator(".rail").isVisible()).toBe(false);
    expect((await reader.pdf()).byteLength).toBeGreaterThan(10_000);
    await reader.emulateMedia({ media: "screen" });

    // Two editors: the second is told who was first, and keeps the text.
    await reader.getByRole("button", { name: "Edit" }).click();
    await reader.getByLabel("Title", { exact: true }).fill("By Rita");
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Title", { exact: true }).fill("By the admin");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "By the admin" }).waitFor();
    await reader.getByRole("button", { name: "Save" }).click();
    await reader.locator("main").getByText("admin saved this report after you opened it").waitFor();
    expect(await reader.getByLabel("Title", { exact: true }).inputValue()).toBe("By Rita");
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No reports yet").waitFor();
    await context.close();
    expect(yard.complaints.filter((line) => !line.includes("409"))).toEqual([]);
  });
});
