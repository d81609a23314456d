/** How many bytes come over the wire until a page stands. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();

beforeAll(() => yard.start(0.1), 300_000);
afterAll(() => yard.stop(), 300_000);

/** The bytes of all answers to a page that was never opened before, as they were sent, by kind. */
async function weigh(path: string, isReady: string): Promise<Record<"code" | "data" | "all", number>> {
  const context = await yard.context();
  const page = await context.newPage();
  const sizes: Promise<[boolean, number]>[] = [];
  page.on("requestfinished", (request) => {
    if (!request.url().includes("/api/v1/stream")) {
      sizes.push(request.sizes().then(({ responseBodySize }) => [/\/api\//.test(request.url()), responseBodySize]));
    }
  });
  await page.goto(yard.url + path);
  await page.locator(isReady).first().waitFor();
  // Until nothing has come for half a second: what a page asks for later is part of its weight.
  for (let count = -1; count !== sizes.length; ) {
    count = sizes.length;
    await page.waitForTimeout(500);
  }
  // What ends while the page is closed has no size any more.
  page.removeAllListeners("requestfinished");
  const all = await Promise.all(sizes);
  await context.close();
  const sum = (isData: boolean): number => all.filter(([data]) => data === isData).reduce((total, [, size]) => total + size, 0);
  return { code: sum(false), data: sum(true), all: sum(false) + sum(true) };
}

describe("the weight of the first page", () => {
  // Colleagues' runs are data and grow with their number; what every visitor pays for is the page itself.
  test("Home's document, scripts and styles come in under 150,000 bytes", async () => {
    const weight = await weigh("/app/home", "section[aria-label='Recent runs'] td");
    expect(weight.code).toBeGreaterThan(50_000);
    expect(weight.code, JSON.stringify(weight)).toBeLessThan(150_000);
  });

  test("those of Runs, with its table and charts, under 200,000", async () => {
    const weight = await weigh("/app/runs", "[role=row] [role=gridcell]");
    expect(weight.code, JSON.stringify(weight)).toBeLessThan(200_000);
  });
});
