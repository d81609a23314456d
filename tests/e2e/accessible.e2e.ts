/** Every page by axe, in light and dark, and by the Tab key. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const AXE = readFileSync(fileURLToPath(new URL("../../frontend/node_modules/axe-core/axe.min.js", import.meta.url)), "utf8");
const yard = new Yard();
let pages: [string, string][] = [];

beforeAll(async () => {
  await yard.start(0.1);
  const food = await yard.experiment("food11-classifier");
  const runs = await yard.runs(food);
  const { jobs } = await yard.call<{ jobs: { job_id: string }[] }>("POST", "/api/v1/jobs", { command: ["true"], name: "walk" });
  const text = `\`\`\`runs\nexperiment: food11-classifier\nlimit: 2\n\`\`\`\n\n\`\`\`chart\nexperiment: food11-classifier\nlimit: 2\nmetric: val_loss\n\`\`\`\n`;
  const report = await yard.call<{ report_id: string }>("POST", "/api/v1/reports", { title: "Findings", text });
  pages = [
    ["/app/home", "Recent runs"],
    ["/app/experiments", "food11-classifier"],
    [`/app/runs?exp=${food}`, "Filter"],
    [`/app/runs/${runs[0]}`, "Charts"],
    [`/app/compare?runs=${runs.slice(0, 2).join(",")}`, "Compare"],
    ["/app/models", "Models"],
    ["/app/reports", "Findings"],
    [`/app/reports/${report.report_id}`, "Lines of the chart"],
    [`/app/reports/${report.report_id}?edit=1`, "Preview"],
    ["/app/queue", "Queue"],
    [`/app/jobs/${jobs[0]?.job_id}`, "walk"],
    ["/app/submit", "Submit a job"],
    ["/app/nodes", "Nodes"],
    ["/app/leases", "Leases"],
    ["/app/log", "Log"],
    ...["tokens", "members", "teams", "queues", "policy", "audit"].map((tab): [string, string] => [`/app/settings?tab=${tab}`, "Settings"]),
  ];
}, 300_000);
afterAll(() => yard.stop(), 300_000);

interface Finding {
  id: string;
  help: string;
  nodes: { html: string }[];
}

/** axe does not know that rows of the runs table own their names by aria-owns, which lie in a column of their own. */
const isKnown = ({ id, nodes }: Finding): boolean => id === "aria-required-children" && nodes.every(({ html }) => html.startsWith('<div class="grid" role="grid"'));

/** What axe finds on a page, a line each; in the dark only colours are new. */
async function findings(page: Page, rules: string[]): Promise<string[]> {
  // Evaluated by the browser's debugger, which the pages' own policy on scripts does not concern.
  await page.evaluate(AXE);
  const found = await page.evaluate((only) =>
    (window as unknown as { axe: { run: (what: Document, how: object) => Promise<{ violations: Finding[] }> } }).axe
      .run(document, { runOnly: only })
      .then(({ violations }) => violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map(({ html }) => ({ html })) }))),
    rules,
  );
  return found.filter((one) => !isKnown(one)).map((one) => `${one.id} (${one.help}): ${one.nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(" | ")}`);
}

describe("accessible pages", () => {
  for (const dark of [false, true]) {
    test(`axe finds nothing on any page, ${dark ? "dark" : "light"}`, async () => {
      const context = await yard.context({ dark });
      const page = await context.newPage();
      const all: string[] = [];
      for (const [path, word] of pages) {
        await page.goto(yard.url + path);
        await page.locator("main").getByText(word).or(page.locator(`main [aria-label="${word}"]`)).first().waitFor();
        await page.waitForFunction(() => document.querySelector("main [aria-busy=true]") === null);
        all.push(...(await findings(page, dark ? ["color-contrast"] : ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"])).map((line) => `${path.split("?tab")[0]?.slice(0, 24)}: ${line}`));
      }
      await context.close();
      expect(all).toEqual([]);
    });
  }

  test("the Tab key reaches the page from the frame, and each stop can be seen", async () => {
    const page = await yard.open("/app/settings");
    await page.getByRole("button", { name: "New token" }).waitFor();
    const stops: string[] = [];
    for (let step = 0; step < 60 && !stops.includes("New token"); step += 1) {
      await page.keyboard.press("Tab");
      stops.push(await page.evaluate(() => (document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "").trim()));
    }
    expect(stops[0]).toBe("Skip to the page");
    expect(stops).toContain("New token");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "New token" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });
});
