/** Logbooks in a browser against a real server: a job with two attempts, a note, a link to an entry, the team's page. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
const FAILS_ONCE = 'if [ "$YARD_ATTEMPT" = 1 ]; then echo broken; exit 3; fi; echo fine';
let job = "";

interface Shown {
  job: { state: string; run_id: string };
}

beforeAll(async () => {
  await yard.start(0);
  const { job_ids: ids } = await yard.call<{ job_ids: string[] }>("POST", "/api/v1/jobs", {
    name: "storied",
    command: ["sh", "-c", FAILS_ONCE],
    retries: 1,
  });
  job = ids[0] ?? "";
}, 300_000);
afterAll(() => yard.stop(), 300_000);

describe("the logbook", () => {
  test("of a run tells of its attempts, takes a note, and links to an entry", async () => {
    const shown = (): Promise<Shown> => yard.call<Shown>("GET", `/api/v1/jobs/${job}`);
    await expect.poll(async () => (await shown()).job.state, { timeout: 120_000 }).toBe("succeeded");
    const run = (await shown()).job.run_id;
    const page = await yard.open(`/app/runs/${run}?tab=logbook`);
    await page.getByText(/Attempt 1 failed with exit code 3; started again on .* from the beginning/).waitFor();
    await page.getByLabel("Note", { exact: true }).fill("**Look** at this, <b>plain</b>");
    await page.getByRole("button", { name: "Add note" }).click();
    await page.locator(".logbook-note strong", { hasText: "Look" }).waitFor();
    expect(await page.locator(".logbook-note b").count()).toBe(0);
    await page.getByRole("button", { name: /^Notes/ }).click();
    await page.waitForURL(/kinds=note/);
    expect(await page.locator(".logbook-entry").count()).toBe(1);
    const id = await page.locator(".logbook-entry").getAttribute("id");
    await page.goto(`${yard.url}/app/runs/${run}?tab=logbook&entry=${id}`);
    await page.locator(".logbook-entry.named", { hasText: "Look" }).waitFor();
    await page.getByRole("tab", { name: "Timeline" }).click();
    const lanes = page.getByRole("region", { name: "Timeline" });
    for (const lane of ["Starting", "Running", "Checkpoints", "Notes"]) {
      await lanes.getByText(lane, { exact: true }).waitFor();
    }
    await page.context().close();
  }, 240_000);

  test("of the team names the run, and its week has a digest", async () => {
    const page = await yard.open("/app/logbook");
    await page.getByText(/Job\s+storied\s+succeeded/).waitFor();
    await page.getByLabel("Search the logbook").fill("exit code 3");
    await expect.poll(() => page.locator(".logbook-entry").count()).toBe(1);
    await page.getByRole("button", { name: "Week", exact: true }).click();
    await page.getByRole("region", { name: "Digest" }).getByText(/1 job submitted, 1 succeeded/).waitFor();
    await page.context().close();
  }, 240_000);
});
