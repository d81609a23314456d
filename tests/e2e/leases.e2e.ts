/** The calendar of leases in a browser against a real server: draw, ask, move, stretch, refuse, release, feed. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
const HOUR = 3_600_000;

interface Lease {
  lease_id: string;
  user: string;
  nodes: { node_id: string }[];
  lent_ms: number | null;
  name: string;
  state: string;
  starts_ms: number;
  ends_ms: number;
}

/** Three nodes of two GPUs each on this machine; what is idle is nudged and lent at once. */
const CONFIG = "declared_nodes = 3\n[leases]\nidle_minutes = 0\nlend_minutes = 0\n";
const node = "node-0";

beforeAll(async () => {
  const config = join(yard.home, "yard.toml");
  writeFileSync(config, CONFIG);
  await yard.start(0, "--gpus", "2", "--config", config);
}, 300_000);
afterAll(() => yard.stop(), 300_000);

const leases = async (): Promise<Lease[]> => (await yard.call<{ leases: Lease[] }>("GET", "/api/v1/leases?all=1")).leases;
const lease = async (name: string): Promise<Lease | undefined> => (await leases()).find((one) => one.name === name);

/** The next whole day in the browser's zone, which is the machine's, as the address has it. */
function tomorrow(): { day: string; from: number } {
  const now = new Date();
  const start = new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1);
  const two = (value: number): string => String(value).padStart(2, "0");
  return { day: `${start.getFullYear()}-${two(start.getMonth() + 1)}-${two(start.getDate())}`, from: start.getTime() };
}

/** Drag within a day's track, from one hour to another. */
async function drag(page: Page, from: number, to: number): Promise<void> {
  const box = await page.locator(".cal-track").first().boundingBox();
  if (box === null) {
    throw new Error("the calendar has no track");
  }
  const x = (hour: number): number => box.x + (box.width * hour) / 24;
  await page.mouse.move(x(from), box.y + 12);
  await page.mouse.down();
  await page.mouse.move(x((from + to) / 2), box.y + 12, { steps: 3 });
  await page.mouse.move(x(to), box.y + 12, { steps: 3 });
  await page.mouse.up();
}

const bar = (page: Page, name: string): Locator => page.locator(`[data-lease="${name}"]`).first();

describe("the calendar", () => {
  test("drawing proposes a lease, a dry run answers first, and the lease is there with its line", async () => {
    const { day, from } = tomorrow();
    const page = await yard.open(`/app/leases?scale=day&day=${day}`);
    await page.locator(".cal-track").first().waitFor();
    await drag(page, 10, 12);
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("status").getByText("No job moves.").waitFor();
    expect(await leases()).toEqual([]);
    await dialog.getByLabel("Name").fill("drawn");
    await dialog.getByText(`yard lease add drawn --node ${node} --start '${day} 10:00' --for 2h`).waitFor();
    await dialog.getByRole("button", { name: "Lease", exact: true }).click();
    await bar(page, "drawn").waitFor();
    expect(await lease("drawn")).toMatchObject({ starts_ms: from + 10 * HOUR, ends_ms: from + 12 * HOUR });
    expect(await bar(page, "drawn").getAttribute("title")).toMatch(/10:00 to 12:00 \([+-]\d\d:\d\d\)$/);
    await page.getByRole("region", { name: "My leases" }).getByText(/starts in /).waitFor();
    await page.context().close();
  });

  test("dragging moves and stretches it, each after it was asked", async () => {
    const { day, from } = tomorrow();
    const page = await yard.open(`/app/leases?scale=day&day=${day}`);
    await bar(page, "drawn").waitFor();
    await drag(page, 11, 15);
    await page.getByRole("dialog").getByText(/^yard lease move drawn --start '.* 14:00'/).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Move", exact: true }).click();
    await expect.poll(async () => (await lease("drawn"))?.starts_ms).toBe(from + 14 * HOUR);
    await expect.poll(() => bar(page, "drawn").getAttribute("title")).toContain("14:00 to 16:00");
    const box = await bar(page, "drawn").boundingBox();
    const track = await page.locator(".cal-track").first().boundingBox();
    await page.mouse.move((box?.x ?? 0) + (box?.width ?? 0) - 2, (box?.y ?? 0) + 8);
    await page.mouse.down();
    await page.mouse.move((track?.x ?? 0) + ((track?.width ?? 0) * 18) / 24, (box?.y ?? 0) + 8, { steps: 4 });
    await page.mouse.up();
    await page.getByRole("dialog").getByText(/^yard lease extend drawn --end '.* 18:00'/).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Extend", exact: true }).click();
    await expect.poll(async () => (await lease("drawn"))?.ends_ms).toBe(from + 18 * HOUR);
    await page.context().close();
  });

  test("dragging to another row takes another node", async () => {
    const { day, from } = tomorrow();
    const page = await yard.open(`/app/leases?scale=day&day=${day}`);
    const box = await bar(page, "drawn").boundingBox();
    const other = await page.locator('[data-node="node-2"] .cal-track').boundingBox();
    const x = (box?.x ?? 0) + (box?.width ?? 0) / 2;
    await page.mouse.move(x, (box?.y ?? 0) + 8);
    await page.mouse.down();
    await page.mouse.move(x, ((box?.y ?? 0) + (other?.y ?? 0)) / 2, { steps: 3 });
    await page.mouse.move(x, (other?.y ?? 0) + 12, { steps: 3 });
    await page.mouse.up();
    await page.getByRole("dialog").getByText(/^yard lease move drawn .*--node node-2/).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Move", exact: true }).click();
    await page.locator('[data-node="node-2"] [data-lease="drawn"]').waitFor();
    expect(await lease("drawn")).toMatchObject({ starts_ms: from + 14 * HOUR, nodes: [{ node_id: "node-2" }] });
    await yard.call("POST", "/api/v1/leases/drawn/move", { nodes: [node] });
    await page.locator(`[data-node="${node}"] [data-lease="drawn"]`).waitFor();
    await page.context().close();
  });

  test("keys move and stretch a lease as well", async () => {
    const { day, from } = tomorrow();
    const page = await yard.open(`/app/leases?scale=day&day=${day}`);
    await bar(page, "drawn").focus();
    for (const key of ["ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft", "Shift+ArrowLeft", "Enter"]) {
      await page.keyboard.press(key);
    }
    await page.getByRole("dialog").getByRole("button", { name: "Move", exact: true }).click();
    await expect.poll(async () => (await lease("drawn"))?.starts_ms).toBe(from + 13 * HOUR);
    expect((await lease("drawn"))?.ends_ms).toBe(from + 16.75 * HOUR);
    await page.context().close();
  });

  test("a refusal names the lease in the way and offers slots, of which one is taken", async () => {
    const { day } = tomorrow();
    const page = await yard.open(`/app/leases?scale=day&day=${day}`);
    await bar(page, "drawn").waitFor();
    await drag(page, 12, 12.5);
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("second");
    await dialog.getByLabel(/^To/).fill(`${day}T14:00`);
    await dialog.getByRole("alert").getByText(/In the way:/).waitFor();
    expect(await dialog.getByRole("alert").textContent()).toContain("drawn");
    expect(await dialog.getByRole("button", { name: "Lease", exact: true }).isDisabled()).toBe(true);
    await dialog.getByRole("group", { name: "Nearest slots" }).getByRole("button").first().click();
    await dialog.getByRole("status").waitFor();
    await dialog.getByRole("button", { name: "Lease", exact: true }).click();
    await expect.poll(async () => (await lease("second"))?.state).toBe("pending");
    await page.context().close();
  });

  test("a running job and one that is expected are drawn beside the leases", async () => {
    const limit = { command: ["sleep", "300"], time_limit_seconds: 3600, grace_seconds: 2 };
    await yard.call("POST", "/api/v1/jobs", { name: "drawn-beside", gpus: 1, ...limit });
    await yard.call("POST", "/api/v1/jobs", { name: "comes-after", gpus: 2, nodes: 3, ...limit });
    const page = await yard.open("/app/leases?scale=day");
    await page.locator(".cal-job.running").first().waitFor();
    expect(await page.locator(".cal-job.running").first().getAttribute("title")).toContain("drawn-beside");
    await page.locator(".cal-job.predicted").first().waitFor();
    expect(await page.locator(".cal-job.predicted").first().getAttribute("title")).toContain("is expected: comes-after");
    await page.context().close();
    for (const name of ["comes-after", "drawn-beside"]) {
      await yard.call("POST", `/api/v1/jobs/${name}/stop`, { grace_seconds: 0 });
    }
  });

  test("a dry run lists the jobs that move", async () => {
    const vision = await yard.member("bob", "vision");
    await yard.call("POST", "/api/v1/jobs", { name: "theirs", command: ["sleep", "300"], gpus: 2, nodes: 3, preemptible: true, grace_seconds: 1 }, vision);
    const running = async (): Promise<string> => (await yard.call<{ job: { state: string } }>("GET", "/api/v1/jobs/theirs", undefined, vision)).job.state;
    await expect.poll(running, { timeout: 120_000 }).toBe("running");
    const page = await yard.open("/app/leases?scale=day");
    await page.getByRole("button", { name: "Lease node-1" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("now");
    const answer = dialog.getByRole("status");
    await answer.getByText("1 job would be touched:").waitFor();
    expect(await answer.getByRole("listitem").textContent()).toMatch(/theirs.*of bob.*on node-\d.*save/);
    await dialog.getByRole("button", { name: "Lease", exact: true }).click();
    await bar(page, "now").waitFor();
    await page.context().close();
    await yard.call("POST", "/api/v1/leases/now/release", {});
    await yard.call("POST", "/api/v1/jobs/theirs/stop", { grace_seconds: 0 }, vision);
  });

  test("an idle lease is nudged and lent, called back, and handed over", async () => {
    await yard.member("ada", "default");
    await yard.call("POST", "/api/v1/leases", { name: "idle", nodes: ["node-2"], minutes: 60 });
    await expect.poll(async () => (await lease("idle"))?.lent_ms, { timeout: 120_000 }).not.toBe(null);
    const page = await yard.open("/app/leases?scale=day");
    const mine = page.getByRole("region", { name: "My leases" });
    await mine.getByText(/2 GPUs idle .*; release\?/).waitFor();
    await mine.getByText("lent", { exact: true }).waitFor();
    await mine.getByRole("button", { name: "idle", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("yard lease recall idle").waitFor();
    await dialog.getByRole("region", { name: "History" }).getByRole("listitem").filter({ hasText: "are lent to preemptible jobs" }).waitFor();
    await dialog.getByRole("button", { name: "Call nodes back" }).click();
    await expect.poll(async () => (await yard.call<{ events: { kind: string }[] }>("GET", "/api/v1/events?limit=200")).events.some((one) => one.kind === "lease.recalled")).toBe(true);
    await mine.getByRole("button", { name: "idle", exact: true }).click();
    await dialog.getByRole("button", { name: "Transfer…" }).click();
    await dialog.getByLabel("Hand it to").fill("ada");
    await dialog.getByText("yard lease transfer idle ada").waitFor();
    await dialog.getByRole("button", { name: "Transfer", exact: true }).click();
    await expect.poll(async () => (await lease("idle"))?.user).toBe("ada");
    await yard.call("POST", "/api/v1/leases/idle/release", {});
    await page.context().close();
  });

  test("a pool and the part handed out from it are told apart", async () => {
    const { day, from } = tomorrow();
    const times = { starts_ms: from + 8 * HOUR, ends_ms: from + 20 * HOUR };
    await yard.call("POST", "/api/v1/leases", { name: "course", nodes: ["node-1", "node-2"], pool: true, ...times });
    await yard.call("POST", "/api/v1/leases", { name: "group-1", parent: "course", nodes: ["node-1"], starts_ms: from + 9 * HOUR, minutes: 120 });
    const page = await yard.open(`/app/leases?scale=day&day=${day}`);
    await page.locator('[data-node="node-1"] .cal-lease.pool[data-lease="course"]').waitFor();
    await page.locator('[data-node="node-1"] .cal-lease.part[data-lease="group-1"]').click();
    await page.getByRole("dialog", { name: "Lease group-1" }).getByText(/course/).waitFor();
    await page.context().close();
    for (const name of ["group-1", "course"]) {
      await yard.call("POST", `/api/v1/leases/${name}/release`, {});
    }
  });

  test("a lease is released from its sheet, and the one beside it extended once it may, each with its line", async () => {
    const { day } = tomorrow();
    const page = await yard.open(`/app/leases?scale=day&day=${day}`);
    await bar(page, "drawn").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Release…" }).click();
    await dialog.getByText("yard lease release drawn").waitFor();
    await dialog.getByRole("button", { name: "Release drawn" }).click();
    await expect.poll(() => page.locator('[data-lease="drawn"]').count()).toBe(0);
    await expect.poll(async () => (await lease("drawn"))?.state).toBe("deleted");
    const ends = (await lease("second"))?.ends_ms ?? 0;
    await page.getByRole("region", { name: "My leases" }).getByRole("button", { name: "second" }).click();
    await dialog.getByRole("button", { name: "Extend by 1 h…" }).click();
    await dialog.getByText(/^yard lease extend second --end /).waitFor();
    await dialog.getByRole("button", { name: "Extend", exact: true }).click();
    await expect.poll(async () => (await lease("second"))?.ends_ms).toBe(ends + HOUR);
    await page.context().close();
  });

  test("week and thirty days, a type that nobody has, dark, and a phone", async () => {
    const page = await yard.open("/app/leases", { dark: true });
    await page.locator(".cal-tick").nth(6).waitFor();
    await page.getByRole("button", { name: "30 days" }).click();
    await expect.poll(() => page.locator(".cal-tick").count()).toBe(30);
    expect(page.url()).toContain("scale=month");
    await page.goto(`${yard.url}/app/leases?type=nonesuch`);
    await page.getByText("No node of this type").waitFor();
    const phone = await yard.open("/app/leases?scale=day", { width: 390, height: 780 });
    await phone.locator(".cal-track").first().waitFor();
    expect(await phone.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
    await phone.context().close();
    await page.context().close();
  });

  test("a feed has a token that opens the calendar file and nothing else", async () => {
    const page = await yard.open("/app/leases");
    await page.getByRole("button", { name: "Make a feed" }).click();
    const card = page.getByRole("region", { name: "Calendar feed" });
    const token = (await card.locator("dd code").nth(2).textContent()) ?? "";
    const read = (path: string): Promise<Response> => fetch(yard.url + path, { headers: { authorization: `Basic ${Buffer.from(`feed:${token}`).toString("base64")}` } });
    const feed = await read("/api/v1/leases/feed.ics");
    expect([feed.status, (await feed.text()).startsWith("BEGIN:VCALENDAR")]).toEqual([200, true]);
    expect((await read("/api/v1/leases")).ok).toBe(false);
    await page.context().close();
  });

  test("the palette finds jobs and nodes", async () => {
    await yard.call("POST", "/api/v1/jobs", { name: "found-by-name", command: ["true"] });
    const page = await yard.open("/app/nodes");
    await page.getByRole("heading", { name: "Nodes" }).waitFor();
    await page.keyboard.press("Control+k");
    const box = page.getByRole("combobox", { name: "Search or jump" });
    await box.fill("found-by");
    await page.getByRole("option", { name: /found-by-name.*job · / }).waitFor();
    await box.fill(node);
    await page.getByRole("option", { name: /node · / }).first().click();
    await page.getByRole("region", { name: `Node ${node}` }).waitFor();
    expect(page.url()).toContain(`node=${node}`);
    await page.context().close();
  });

  test("no page asked for anything elsewhere or complained", () => {
    expect(yard.foreign).toEqual([]);
    expect(yard.complaints).toEqual([]);
  });
});
