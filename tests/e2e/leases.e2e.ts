/** The calendar of leases in a browser against a real server: draw, ask, move, stretch, refuse, release, feed. */
import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
const HOUR = 3_600_000;

interface Lease {
  lease_id: string;
  name: string;
  state: string;
  starts_ms: number;
  ends_ms: number;
}

let node = "";

beforeAll(() => yard.start(0, "--gpus", "2").then(async () => {
  const { nodes } = await yard.call<{ nodes: { node_id: string }[] }>("GET", "/api/v1/cluster");
  node = nodes[0]?.node_id ?? "";
}), 120_000);
afterAll(() => yard.stop(), 60_000);

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

  test("a running job is drawn beside the leases", async () => {
    await yard.call("POST", "/api/v1/jobs", { name: "drawn-beside", command: ["sleep", "300"], gpus: 1, preemptible: true, grace_seconds: 2 });
    const page = await yard.open("/app/leases?scale=day");
    await page.locator(".cal-job.running").first().waitFor();
    expect(await page.locator(".cal-job.running").first().getAttribute("title")).toContain("drawn-beside");
    await page.context().close();
    await yard.call("POST", "/api/v1/jobs/drawn-beside/stop", {});
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
    expect(page.url()).toContain(`/app/nodes#node-${node}`);
    await page.context().close();
  });

  test("no page asked for anything elsewhere or complained", () => {
    expect(yard.foreign).toEqual([]);
    expect(yard.complaints).toEqual([]);
  });
});
