/** Jobs in a browser against a real server with two declared GPUs: submit, queue, run, follow, stop, explain. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
const LONG = "sh -c 'i=0; while true; do i=$((i+1)); echo tick $i; sleep 0.2; done'";

beforeAll(() => yard.start(0, "--gpus", "2"), 300_000);
afterAll(() => yard.stop(), 300_000);

interface JobRow {
  job_id: string;
  name: string;
  state: string;
}

const jobs = async (): Promise<JobRow[]> => (await yard.call<{ jobs: JobRow[] }>("GET", "/api/v1/jobs?limit=100")).jobs;
const stateOf = async (name: string): Promise<string> => (await jobs()).find((job) => job.name === name)?.state ?? "none";

/** Submit over the API, as `yard submit` does. */
async function submit(name: string, command: string[], more: object = {}): Promise<string> {
  const { job_ids: ids } = await yard.call<{ job_ids: string[] }>("POST", "/api/v1/jobs", { name, command, grace_seconds: 2, ...more });
  return ids[0] ?? "";
}

/** The last line that the log on a page shows. */
const lastLine = async (page: Page): Promise<string> => (await page.locator(".log-line").last().textContent()) ?? "";

describe("the queue", () => {
  test("teaches how to submit while it is empty", async () => {
    const page = await yard.open("/app/queue");
    await page.getByRole("heading", { name: "Nothing is queued, nothing runs" }).waitFor();
    await page.getByText("yard submit --gpus 1 -- python train.py").waitFor();
    await page.context().close();
  });
});

describe("from the form to the end", () => {
  test("a job is answered before it is queued, appears, runs, its log follows, and it is stopped", async () => {
    const page = await yard.open("/app/submit");
    await page.getByLabel("Command", { exact: true }).fill(LONG);
    await page.getByLabel("Name", { exact: true }).fill("from-the-form");
    await page.getByLabel("Answer of the queue").getByText("Starts at once", { exact: true }).waitFor();
    await page.getByText(/^yard submit --name from-the-form --gpus 1 --no-working-dir -- sh -c/).waitFor();

    await page.getByLabel("GPUs", { exact: true }).fill("64");
    await page.getByText("Cannot start as asked", { exact: true }).waitFor();
    await page.getByRole("button", { name: /starts now/i }).first().click();
    await page.getByText("Starts at once", { exact: true }).waitFor();

    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.waitForURL("**/app/jobs/*");
    await page.getByRole("heading", { name: "from-the-form" }).waitFor();
    await expect.poll(() => stateOf("from-the-form"), { timeout: 120_000 }).toBe("running");
    await page.locator(".page-facts .state", { hasText: "running" }).waitFor();

    const queue = await page.context().newPage();
    await queue.goto(`${yard.url}/app/queue`);
    await queue.getByRole("row").filter({ hasText: "from-the-form" }).filter({ hasText: "running" }).waitFor();

    await page.getByRole("tab", { name: "Logs" }).click();
    await page.locator(".log-line", { hasText: "tick" }).first().waitFor();
    const seen = await lastLine(page);
    await expect.poll(() => lastLine(page), { timeout: 120_000 }).not.toBe(seen);
    await page.getByLabel("Find in the log").fill("tick 3$");
    await page.getByRole("button", { name: "Matches only" }).click();
    await expect.poll(() => page.locator(".log-line").allTextContents().then((lines) => lines.length === 1 && lines[0]?.endsWith("tick 3") === true)).toBe(true);

    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("dialog").getByText(/^yard stop j/).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Stop", exact: true }).click();
    await page.locator(".page-facts .state", { hasText: "stopped" }).waitFor({ timeout: 120_000 });
    expect(await stateOf("from-the-form")).toBe("stopped");
    await queue.getByRole("row").filter({ hasText: "from-the-form" }).filter({ hasText: "stopped" }).waitFor();
    await page.context().close();
  });
});

describe("waiting", () => {
  test("code comes from a folder that is chosen, or from git; the request is edited and sent again", async () => {
    const folder = mkdtempSync(join(tmpdir(), "code-"));
    mkdirSync(join(folder, "lib"));
    mkdirSync(join(folder, ".git"));
    writeFileSync(join(folder, "train.py"), "import sys\nfrom lib import word\nprint(word.WORD, *sys.argv[1:])\n");
    writeFileSync(join(folder, "lib", "word.py"), "WORD = 'packed'\n");
    writeFileSync(join(folder, ".git", "config"), "secret");
    const page = await yard.open("/app/submit");
    await page.getByLabel("Folder of code").setInputFiles(folder);
    await page.getByText("2 files").waitFor();
    await page.getByText("1 file of history, environments and caches left out").waitFor();
    await page.getByLabel("Command", { exact: true }).fill("python3 train.py one");
    await page.getByLabel("Name", { exact: true }).fill("from-a-folder");
    await page.getByLabel("GPUs", { exact: true }).fill("0");
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.waitForURL("**/app/jobs/*");
    await page.getByText("packed one").first().waitFor();

    // Its request again, with another argument: the same packaged folder.
    await page.goto(`${yard.url}/app/submit?from=${page.url().split("/").pop()?.split("?")[0] ?? ""}`);
    await page.getByLabel("Command", { exact: true }).fill("python3 train.py two");
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.waitForURL("**/app/jobs/*");
    await page.getByText("packed two").first().waitFor();

    await page.goto(`${yard.url}/app/submit`);
    await page.getByLabel("Command", { exact: true }).fill("python3 train.py three");
    await page.getByLabel("Or a git repository").fill("https://me:secret@127.0.0.1/code");
    await page.getByText("leave the user and password out").waitFor();
    expect(await page.getByRole("button", { name: "Submit", exact: true }).isDisabled()).toBe(true);
    rmSync(folder, { recursive: true });
    await page.context().close();
  });

  test("a held job says so and starts when released from its card; what cannot fit does not look like a wait", async () => {
    const held = await submit("held-back", ["sh", "-c", "echo went; sleep 0.1"], { gpus: 1, hold: true });
    const huge = await submit("too-huge", ["true"], { gpus: 16 });
    const page = await yard.open(`/app/queue?job=${held}`);
    await page.getByRole("heading", { name: /Can never start as requested/ }).waitFor();
    await page.getByRole("row").filter({ hasText: "too-huge" }).getByText("Cannot fit").waitFor();
    await page.getByRole("region", { name: "Why held-back waits" }).getByRole("button", { name: "Release it" }).click();
    await expect.poll(() => stateOf("held-back"), { timeout: 120_000 }).toBe("succeeded");
    await page.getByRole("row").filter({ hasText: "held-back" }).getByText("succeeded").waitFor();

    await page.goto(`${yard.url}/app/jobs/${huge}`);
    await page.getByRole("region", { name: "Why too-huge waits" }).getByText("Cannot fit").waitFor();
    await page.getByRole("button", { name: /starts now/i }).click();
    await expect.poll(() => stateOf("too-huge"), { timeout: 120_000 }).toBe("succeeded");
    await page.locator(".page-facts .state", { hasText: "succeeded" }).waitFor();
    await page.context().close();
  });
});

describe("after a failure", () => {
  test("the attempts show each cause, the run page carries the job's log and lanes", async () => {
    const id = await submit("fails-once", ["sh", "-c", 'if [ -e "$YARD_CHECKPOINT_DIR/x" ]; then echo second; else : > "$YARD_CHECKPOINT_DIR/x"; echo broken; exit 3; fi'], { retries: 1 });
    await expect.poll(() => stateOf("fails-once"), { timeout: 120_000 }).toBe("succeeded");
    const page = await yard.open(`/app/jobs/${id}`);
    const attempts = page.getByRole("region", { name: "Attempts" });
    await attempts.getByText("exit code 3", { exact: true }).waitFor();
    expect(await attempts.getByRole("row").count()).toBe(3);
    const failing = await submit("fails-last", ["sh", "-c", "echo fine; echo 'ValueError: bad shape' >&2; exit 4"]);
    await expect.poll(() => stateOf("fails-last"), { timeout: 120_000 }).toBe("failed");
    const queue = await page.context().newPage();
    await queue.goto(`${yard.url}/app/queue`);
    // What ended last stands first, with the line that says why.
    await queue.getByRole("row").filter({ hasText: "fails-last" }).getByText("ValueError: bad shape").waitFor();
    const ended = (await queue.locator(".queue-name a").allTextContents()).slice(0, 2);
    expect(ended).toEqual(["fails-last", "fails-once"]);
    const spans = await queue.locator(".queue-ticks > span").evaluateAll((all) => all.map((one) => one.getBoundingClientRect()).map(({ left, right }) => [left, right] as const).sort((a, b) => a[0] - b[0]));
    spans.forEach(([left], at) => expect(left).toBeGreaterThanOrEqual((spans[at - 1]?.[1] ?? 0) - 1));
    await queue.close();
    await yard.call("GET", `/api/v1/jobs/${failing}`);
    await page.getByRole("link", { name: "Run", exact: true }).click();
    await page.getByRole("region", { name: "Job", exact: true }).getByText("Restarts").waitFor();
    await page.getByRole("tab", { name: "Logs" }).click();
    await page.locator(".log-line", { hasText: "second" }).waitFor();
    await page.getByLabel("Attempt").selectOption("1");
    await page.locator(".log-line", { hasText: "broken" }).waitFor();
    await page.getByRole("tab", { name: "Timeline" }).click();
    await page.getByRole("region", { name: "Timeline" }).getByText("Checkpoints").waitFor();
    await page.context().close();
  });
});

describe("other teams", () => {
  test("what they hold is in the queue, by team and size alone; my team and mine leave it out", async () => {
    const token = await yard.member("vera", "vision");
    const job = await submit("hidden-name", ["sleep", "60"], { gpus: 1 });
    await expect.poll(() => stateOf("hidden-name"), { timeout: 120_000 }).toBe("running");
    const page = await yard.open("/app/queue", { signedIn: false });
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    const row = page.getByRole("row").filter({ hasText: "Team default" });
    await row.getByText("1 GPU").waitFor();
    expect(await page.getByText("hidden-name").count()).toBe(0);
    await page.getByRole("region", { name: "GPUs by team" }).getByText("default 1 GPU").waitFor();
    await page.getByRole("group", { name: "Whose jobs" }).getByRole("button", { name: "My team" }).click();
    await page.getByRole("heading", { name: "Nothing is queued, nothing runs" }).waitFor();
    await yard.call("POST", `/api/v1/jobs/${job}/stop`, {});
    await page.context().close();
  });
});

describe("links between teams", () => {
  test("an address names its team, and opens for whoever may see it, with the team or without", async () => {
    const token = await yard.call<{ token: string }>("POST", "/api/v1/tokens", { label: "vera", user: "vera", team: "vision" }).then((made) => made.token);
    const made = await yard.call<{ experiment_id: string }>("POST", "/api/2.0/mlflow/experiments/create", { name: "theirs" }, token);
    const { run } = await yard.call<{ run: { info: { run_id: string } } }>("POST", "/api/2.0/mlflow/runs/create", { experiment_id: made.experiment_id, run_name: "of-vision" }, token);
    const page = await yard.open("/app/home");
    await expect.poll(() => page.url()).toContain("team=default");
    await page.goto(`${yard.url}/app/runs/${run.info.run_id}?team=vision`);
    await page.getByRole("heading", { name: "of-vision" }).waitFor();
    await page.getByRole("link", { name: "Queue", exact: true }).first().click();
    await page.waitForURL(/queue.*team=vision/);
    await page.goto(`${yard.url}/app/home?team=default`);
    await page.getByRole("button", { name: "Team default" }).waitFor();
    await page.goto(`${yard.url}/app/runs/${run.info.run_id}`);
    await page.getByRole("heading", { name: "of-vision" }).waitFor();
    expect(page.url()).toContain("team=vision");
    await page.context().close();
  });
});

describe("the nodes", () => {
  test("show who holds which GPU, and a drained node takes no job until it is given back", async () => {
    await submit("holder", ["sleep", "60"], { gpus: 0.5 });
    await expect.poll(() => stateOf("holder"), { timeout: 120_000 }).toBe("running");
    const page = await yard.open("/app/nodes", { dark: true });
    await page.getByRole("grid", { name: "GPUs by node" }).locator(".heat-cell[title*='holder of admin, team default']").waitFor();
    await page.getByLabel("Find a node").fill("team-of-nobody");
    await page.getByText("No node matches.").waitFor();
    await page.getByLabel("Find a node").fill("default");
    await page.getByLabel(/^GPU [01]$/).filter({ hasText: "holder" }).getByText("0.5 free").waitFor();
    await page.locator(".node-health > summary").click();
    await page.getByRole("list", { name: /^Checks of / }).getByText("disk", { exact: true }).waitFor();
    await page.getByRole("table", { name: /^Verdicts on / }).getByText("All 2 GPUs are there.").waitFor();
    await page.getByText(/^yard doctor --node /).waitFor();
    await page.getByRole("button", { name: /^Actions for / }).click();
    await page.getByRole("menuitem", { name: "Drain…" }).click();
    await page.getByLabel("Reason, visible to others").fill("new fan");
    await page.getByRole("dialog").getByRole("button", { name: "Drain", exact: true }).click();
    await page.getByText("drained").first().waitFor();
    await page.getByText("new fan").first().waitFor();
    await submit("after-drain", ["true"], { gpus: 1 });
    await page.getByRole("region", { name: "Unmet demand" }).getByText("Nodes out of service").waitFor();
    await page.getByRole("button", { name: /^Actions for / }).click();
    await page.getByRole("menuitem", { name: "Return to service" }).click();
    await expect.poll(() => stateOf("after-drain"), { timeout: 120_000 }).toBe("succeeded");
    await yard.call("POST", "/api/v1/jobs/holder/stop", {});
    await page.context().close();
  });

  test("no page asked for anything elsewhere or complained", () => {
    expect(yard.foreign).toEqual([]);
    expect(yard.complaints).toEqual([]);
  });
});
