/** Interactive work in a browser: the terminal of a job, and JupyterLab on a host of its own. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { PYTHON, Yard } from "./yard";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const LAB = join(process.env.YARD_TEST_ENVS ?? join(ROOT, ".cache", "envs"), "notebook", "bin");
const PATIENCE = 150_000;
const yard = new Yard();

beforeAll(async () => {
  // Builds what is missing, or waits for whoever builds it now.
  await promisify(execFile)(PYTHON, [join(ROOT, "tools", "client_envs.py"), "notebook"]);
  process.env.PATH = `${LAB}:${process.env.PATH ?? ""}`;
  await yard.start(0);
}, 1_200_000);
afterAll(() => yard.stop(), 300_000);

async function submit(name: string, command: string[], interactive: object): Promise<string> {
  const wish = { name, command, interactive, grace_seconds: 2 };
  const { job_ids: ids } = await yard.call<{ job_ids: string[] }>("POST", "/api/v1/jobs", wish);
  return ids[0] ?? "";
}

const shown = async (page: Page): Promise<string> => (await page.locator(".xterm-rows").textContent()) ?? "";

describe("the terminal of a job", () => {
  test("takes keys, follows the window, and is there again after a restart of the server", async () => {
    const shell = ["env", "PS1=ready> ", "bash", "--norc", "--noprofile", "-i"];
    const job = await submit("shell", shell, { kind: "terminal" });
    const page = await yard.open(`/app/jobs/${job}?tab=terminal`);
    await page.getByRole("tab", { name: "Terminal" }).waitFor({ timeout: PATIENCE });
    await page.getByRole("tab", { name: "Terminal" }).click();
    await expect.poll(() => shown(page), { timeout: PATIENCE }).toContain("ready> ");
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.type("here=kept; echo si''ze-$(stty size | tr ' ' x)-\n");
    await expect.poll(() => shown(page), { timeout: PATIENCE }).toMatch(/size-\d+x\d+-/);

    const port = Number(new URL(yard.url).port);
    await yard.stopServer();
    await page.getByText("The line was cut").waitFor({ timeout: PATIENCE });
    await yard.startServer(port);
    await page.getByText("Connected", { exact: true }).waitFor({ timeout: PATIENCE });
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.type("echo after-$here\n");
    await expect.poll(() => shown(page), { timeout: PATIENCE }).toContain("after-kept");
    await page.keyboard.type("exit\n");
    const isOver = page.getByText("The shell has ended.").or(page.locator(".page-facts .state", { hasText: "succeeded" }));
    await isOver.first().waitFor({ timeout: PATIENCE });
    await page.context().close();
  }, 400_000);
});

describe("JupyterLab", () => {
  test("starts from the page, opens on an origin of its own, survives restarts, and cannot act on the server", async () => {
    const page = await yard.open("/app/queue");
    await page.getByRole("link", { name: "Start a notebook" }).click();
    await page.getByLabel("Name, also of its lasting folder").fill("lab");
    await page.getByText("yard notebook --name lab", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.waitForURL("**/app/jobs/*");
    const job = new URL(page.url()).pathname.split("/").at(-1) ?? "";
    const opening = page.context().waitForEvent("page");
    // At once, while it is still starting: the page waits for it.
    await page.getByRole("button", { name: "Open JupyterLab" }).click({ timeout: PATIENCE });
    const lab = await opening;
    await lab.waitForURL(`**/apps/${job}/lab**`, { timeout: PATIENCE });
    expect(new URL(lab.url()).hostname).toBe(`${job}.localhost`);
    const metadata = { kernelspec: { name: "python3", display_name: "Python 3" } };
    const content = { type: "notebook", content: { cells: [], metadata, nbformat: 4, nbformat_minor: 5 } };
    await expect
      .poll(
        async () => {
          try {
            const { url } = await yard.call<{ url: string }>("POST", `/api/v1/jobs/${job}/app`, { program: true });
            const [base = "", token = ""] = url.split("?token=");
            const headers = { authorization: `token ${token}`, "content-type": "application/json" };
            const init = { method: "PUT", headers, body: JSON.stringify(content) };
            return (await fetch(`${base}api/contents/made.ipynb`, init)).status;
          } catch {
            return 0;
          }
        },
        { timeout: PATIENCE, interval: 1000 },
      )
      .toBe(201);
    await lab.goto(new URL(`/apps/${job}/lab/tree/made.ipynb`, lab.url()).href);
    const cell = lab.locator(".jp-Notebook .jp-Cell .cm-content").first();
    await cell.waitFor({ timeout: PATIENCE });
    await lab.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").waitFor({ timeout: PATIENCE });
    // A page that is still settling may take the focus away, so the cell is filled and run until it answers.
    const runs = (code: string, answer: string): Promise<void> =>
      expect
        .poll(
          async () => {
            const dialog = lab.getByRole("dialog").getByRole("button", { name: /Dismiss|Ok|Close/i }).first();
            if (await dialog.isVisible()) {
              await dialog.click();
            }
            await cell.click();
            await lab.keyboard.press("Control+a");
            await lab.keyboard.type(code);
            await lab.keyboard.press("Control+Enter");
            const output = lab.locator(".jp-OutputArea-output", { hasText: answer }).first();
            return output.waitFor({ timeout: 15_000 }).then(() => true, () => false);
          },
          { timeout: PATIENCE },
        )
        .toBe(true);
    await runs("print(6 * 7)", "42");

    await lab.getByRole("menuitem", { name: "Kernel" }).first().click();
    await lab.getByText("Restart Kernel…", { exact: true }).click();
    await lab.getByRole("button", { name: /^Confirm Kernel Restart|^Restart$/ }).click();
    await lab.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").waitFor({ timeout: PATIENCE });

    // The server ends and comes back: the page finds its kernel again, with its variables.
    await runs("here = 'ke' + 'pt'; print(here)", "kept");
    const port = Number(new URL(yard.url).port);
    await yard.stopServer();
    await yard.startServer(port);
    await runs("print('still', here)", "still kept");

    // A page of the app has neither the server's cookie nor a way to its API.
    const reached = await lab.evaluate(async (server) => {
      const tries = [`${server}/api/v1/session`, "/api/v1/session", "/api/v1/jobs"];
      const ask = async (url: string): Promise<number> =>
        fetch(url, { credentials: "include" }).then((answer) => answer.status, () => 0);
      const seen = await Promise.all(tries.map(ask));
      return { seen, cookie: document.cookie };
    }, yard.url);
    expect(reached.seen.filter((status) => status === 200)).toEqual([]);
    expect(reached.cookie).not.toContain("yard_");
    const direct = await page.context().newPage();
    const answer = await direct.goto(`${yard.url}/apps/${job}/lab`);
    expect(answer?.status()).toBe(403);
    await page.context().close();
  }, 600_000);
});
