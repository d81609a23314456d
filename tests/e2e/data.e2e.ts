/** The Data pages: a list, samples of a version, counts by class, changes, users. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { PARQUET, tone } from "./media";
import { Yard } from "./yard";

const yard = new Yard();
const folder = mkdtempSync(join(tmpdir(), "yard-data-"));
const maker = fileURLToPath(new URL("../../docs/examples/food11/make_food11.py", import.meta.url));

beforeAll(async () => {
  process.env.XDG_CACHE_HOME = join(folder, "cache");
  await yard.start(0);
  execFileSync("python3", [maker, join(folder, "food11.zip")]);
  await yard.command("data", "add", "food11", join(folder, "food11.zip"), "--unpack", "--layout", "prefix");
  const words = join(folder, "words");
  mkdirSync(words);
  writeFileSync(join(words, "labels.csv"), "word,label\nsoup,9\n");
  await yard.command("data", "add", "words", words);
  writeFileSync(join(words, "notes.txt"), "second version\n");
  writeFileSync(join(words, "rows.parquet"), Buffer.from(PARQUET, "base64"));
  writeFileSync(join(words, "tone.wav"), Buffer.from(tone()));
  await yard.command("data", "add", "words", words);
  await yard.command("submit", "--no-working-dir", "--data", "food11", "--hold", "-y", "--", "true");
}, 300_000);

afterAll(async () => {
  await yard.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe("the Data pages", () => {
  test("show samples, classes and users of a version", { timeout: 180_000 }, async () => {
    const page = await yard.open("/app/data");
    await page.getByRole("link", { name: "food11" }).click();
    await page.locator(".sample img").first().waitFor();
    await page.waitForFunction(() => {
      const image = document.querySelector<HTMLImageElement>(".sample img");
      return image !== null && image.complete && image.naturalWidth === 32;
    });
    if (process.env.YARD_PICTURES !== undefined) {
      await page.screenshot({ path: join(process.env.YARD_PICTURES, "data-light.png") });
      await page.emulateMedia({ colorScheme: "dark" });
      await page.screenshot({ path: join(process.env.YARD_PICTURES, "data-dark.png") });
    }
    await page.getByRole("button", { name: "Classes" }).click();
    await page.getByRole("button", { name: "class_10" }).waitFor();
    expect(await page.getByRole("row").count()).toBe(12);
    await page.getByRole("button", { name: "Users" }).click();
    await page.locator('a[href*="/app/jobs/"]').first().waitFor();
    expect(yard.complaints).toEqual([]);
    await page.context().close();
  });

  test("compare two versions, show tables and texts, and play a sound", { timeout: 180_000 }, async () => {
    const page = await yard.open("/app/data/words?tab=changes");
    await page.getByText("3 added, 0 removed, 0 changed, 0 moved, 1 the same").waitFor();
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("cell", { name: "soup" }).waitFor();
    await page.getByText("second version").waitFor();
    await page.getByText("3 rows, 2 columns").waitFor();
    await page.getByRole("table", { name: "Values" }).getByText("ü").waitFor();
    const sound = page.locator("audio");
    await sound.evaluate((found: HTMLAudioElement) => found.load());
    await sound.evaluate((found: HTMLAudioElement) => void found.play());
    await expect.poll(() => sound.evaluate((found: HTMLAudioElement) => found.duration)).toBeCloseTo(0.1, 2);
    await page.context().close();
  });
});
