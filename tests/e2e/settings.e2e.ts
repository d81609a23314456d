/** The settings in a browser: what the command line can do, an owner and an admin can do here. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();

beforeAll(() => yard.start(0), 300_000);
afterAll(() => yard.stop(), 300_000);

describe("the settings", () => {
  test("an empty page makes a token and fills it into the lines to copy; the settings list and revoke it", async () => {
    const page = await yard.open("/app/home");
    await page.getByRole("button", { name: "Create a token and fill it in" }).click();
    const lines = page.locator("pre").first();
    await expect.poll(() => lines.textContent()).toMatch(/MLFLOW_TRACKING_TOKEN=yard_\w+/);
    const token = /MLFLOW_TRACKING_TOKEN=(\S+)/.exec((await lines.textContent()) ?? "")?.[1] ?? "";
    const who = (): Promise<string> => yard.call("GET", "/api/v1/session", undefined, token).then(() => "let in", () => "refused");
    expect(await who()).toBe("let in");
    await page.getByRole("link", { name: "Settings" }).click();
    const row = page.getByRole("row").filter({ hasText: "first steps" });
    await row.getByRole("button", { name: "Revoke first steps" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.waitFor({ state: "detached" });
    await expect.poll(who).toBe("refused");
  });

  test("tokens, members, teams, quotas and queues are made and changed; the audit tells of it", async () => {
    const page = await yard.open("/app/settings?tab=members");
    await page.getByRole("button", { name: "Add member" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("User", { exact: true }).fill("mira");
    await dialog.getByRole("button", { name: "Create and add" }).click();
    await page.getByRole("combobox", { name: "Role of mira" }).selectOption("maintainer");
    await expect.poll(() => yard.call<{ members: { user: string; role: string }[] }>("GET", "/api/v1/members").then(({ members }) => members.find((one) => one.user === "mira")?.role)).toBe("maintainer");

    await page.getByRole("tab", { name: "Tokens" }).click();
    await page.getByRole("button", { name: "New token" }).click();
    await dialog.getByLabel("What it is for").fill("nightly");
    await dialog.getByRole("combobox", { name: "User" }).selectOption("mira");
    await dialog.getByRole("button", { name: "Create token" }).click();
    const made = (await page.getByLabel("Token", { exact: true }).textContent()) ?? "";
    expect((await yard.call<{ user: string }>("GET", "/api/v1/session", undefined, made)).user).toBe("mira");
    await dialog.getByRole("button", { name: "Done" }).click();

    await page.getByRole("tab", { name: "Teams and quotas" }).click();
    await page.getByRole("button", { name: "Edit default" }).click();
    await dialog.getByLabel("Quota, GPUs").fill("four");
    expect(await dialog.getByRole("button", { name: "Save" }).isDisabled()).toBe(true);
    await dialog.getByLabel("Quota, GPUs").fill("4");
    await dialog.getByText("yard team set default --quota 4").waitFor();
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    const { teams } = await yard.call<{ teams: { team: string; quota_gpus: number }[] }>("GET", "/api/v1/shares");
    expect(teams.find((one) => one.team === "default")?.quota_gpus).toBe(4);

    await page.getByRole("tab", { name: "Queues" }).click();
    await page.getByRole("button", { name: "New queue" }).click();
    await dialog.getByLabel("Name").fill("night");
    await dialog.getByLabel("Longest time limit").fill("12h");
    await dialog.getByRole("button", { name: "Create queue" }).click();
    await page.getByRole("row").filter({ hasText: "night" }).getByText("jobs up to 12h").waitFor();
    await page.getByRole("button", { name: "Remove night" }).click();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await page.getByRole("row").filter({ hasText: "night" }).waitFor({ state: "detached" });

    await page.getByRole("tab", { name: "Policy" }).click();
    await page.getByRole("heading", { name: "Queue default" }).waitFor();

    await page.getByRole("tab", { name: "Audit" }).click();
    await page.getByRole("combobox", { name: "About" }).selectOption("queue.");
    await expect.poll(() => page.locator(".events tr").count()).toBe(2);
    await page.getByLabel("Done by").fill("nobody");
    await page.getByText("Nothing has happened yet").waitFor();
  });

  test("who may not change something reads it", async () => {
    const token = await yard.member("otto", "default");
    const context = await yard.context({ signedIn: false });
    await context.request.post(`${yard.url}/api/v1/session`, { data: { token } });
    const page = await context.newPage();
    await page.goto(`${yard.url}/app/settings?tab=teams`);
    await page.getByText("platform admins change them").waitFor();
    expect(await page.getByRole("button", { name: "Edit default" }).count()).toBe(0);
    await page.getByRole("tab", { name: "Members" }).click();
    await page.getByText("owners change them").waitFor();
    expect(await page.getByRole("button", { name: "Add member" }).count()).toBe(0);
    expect(yard.complaints).toEqual([]);
  });
});
