/** A sweep in a browser against a real server: it runs, its page follows, its best is trained, searched around and registered. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
/** Logs to its run as a script would, without any client: a loss, and what MLflow takes for a model. */
const TRAIN = `
import json, os, sys, time, urllib.request
values = dict(zip(sys.argv[1::2], sys.argv[2::2]))
server, run = os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/", os.environ["MLFLOW_RUN_ID"]
token = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]}
info = json.load(urllib.request.urlopen(urllib.request.Request(server + "mlflow/runs/get?run_id=" + run, headers=token)))["run"]["info"]
place = "mlflow-artifacts/artifacts/" + info["artifact_uri"].partition(":/")[2].lstrip("/") + "/net/MLmodel"
urllib.request.urlopen(urllib.request.Request(server + place, b"flavors: {}", token, method="PUT"))
for step in (1, 3):
    body = {"run_id": run, "key": "val_loss", "value": float(values["--lr"]) + 1 / step, "step": step, "timestamp": int(time.time() * 1000)}
    head = {**token, "Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(server + "mlflow/runs/log-metric", json.dumps(body).encode(), head))
`;

beforeAll(() => yard.start(0, "--gpus", "2"), 120_000);
afterAll(() => yard.stop(), 300_000);

describe("sweeps", () => {
  test("an empty page teaches, a sweep appears, its page shows what it found, and its best is trained", async () => {
    const page = await yard.open("/app/sweeps");
    await page.getByRole("heading", { name: "No sweep yet" }).waitFor();

    const made = await yard.call<{ sweep: { sweep_id: string } }>("POST", "/api/v1/sweeps", {
      name: "grid-search",
      metric: "val_loss",
      sampler: "grid",
      space: { lr: [0.1, 0.2, 0.3, 0.4], layers: [1, 2] },
      stop: { method: "asha", min: 1, max: 3 },
      slots: 2,
      job: { command: ["python3", "-c", TRAIN], cpus: 0.1 },
    });
    await page.getByRole("link", { name: "grid-search" }).click();
    await page.getByRole("heading", { name: "grid-search" }).waitFor();
    await expect
      .poll(() => yard.call<{ sweep: { state: string } }>("GET", `/api/v1/sweeps/${made.sweep.sweep_id}`).then(({ sweep }) => sweep.state), { timeout: 150_000 })
      .toBe("finished");
    await page.locator(".page-facts .state", { hasText: "finished" }).waitFor({ timeout: 120_000 });
    await page.getByText("8 / 8").waitFor();
    await page.getByLabel("Best so far").locator("svg").waitFor();
    await page.getByLabel("Importance of parameters").getByText("lr", { exact: true }).waitFor();
    await page.getByLabel("Rungs").getByRole("row").nth(1).waitFor();

    await page.getByRole("tab", { name: "Parallel coordinates" }).click();
    await page.getByLabel(/Parallel coordinates of lr, layers, val_loss/).waitFor();
    await page.getByRole("tab", { name: "Slices" }).click();
    await page.getByLabel("Slice of layers").locator("circle").first().waitFor();
    await page.getByRole("tab", { name: "Trials" }).click();
    await expect.poll(() => page.getByLabel("Trials").getByRole("row").count()).toBe(9);
    expect(new URL(page.url()).searchParams.get("tab")).toBe("trials");
    if (process.env.SWEEP_PICTURES !== undefined) {
      for (const scheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme: scheme });
        for (const tab of ["Overview", "Parallel coordinates", "Slices", "Trials"]) {
          await page.getByRole("tab", { name: tab }).click();
          await page.waitForTimeout(300);
          await page.screenshot({ path: `${process.env.SWEEP_PICTURES}/${scheme}-${tab.replace(" ", "-")}.png` });
        }
      }
    }

    await page.getByRole("button", { name: "Train the best in full" }).click();
    await page.getByText(`yard sweeps train ${made.sweep.sweep_id}`).waitFor();
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.waitForURL("**/app/jobs/*");
    await page.getByRole("heading", { name: "grid-search-full" }).waitFor();

    await page.goto(`${yard.url}/app/sweeps/${made.sweep.sweep_id}`);
    await page.getByRole("button", { name: "Register the best" }).click();
    await page.getByLabel("name of the model").fill("best-net");
    await page.getByRole("button", { name: "Register", exact: true }).click();
    await page.waitForURL("**/app/models/best-net");

    await page.goto(`${yard.url}/app/sweeps/${made.sweep.sweep_id}`);
    await page.getByRole("button", { name: "Continue around the best" }).click();
    await page.getByLabel("trials", { exact: true }).fill("2");
    await page.getByRole("button", { name: "Begin", exact: true }).click();
    await page.getByRole("heading", { name: "grid-search-around" }).waitFor();
    await page.getByRole("link", { name: `around ${made.sweep.sweep_id}` }).waitFor();
    expect(yard.complaints).toEqual([]);
    await page.context().close();
  }, 240_000);
});
