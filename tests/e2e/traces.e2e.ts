/** The traces of a run: a list, a waterfall of spans, what a span holds, and feedback. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Yard } from "./yard";

const yard = new Yard();
let run = "";

const START = 1_794_900_000_000_000_000n;

/** A span as an OpenTelemetry SDK sends it; times are milliseconds after the start. */
function span(trace: string, id: number, parent: number, name: string, from: number, to: number, more: object = {}): object {
  const hex = (number: number): string => number.toString(16).padStart(16, "0");
  return {
    traceId: trace,
    spanId: hex(id),
    ...(parent > 0 ? { parentSpanId: hex(parent) } : {}),
    name,
    startTimeUnixNano: String(START + BigInt(from) * 1_000_000n),
    endTimeUnixNano: String(START + BigInt(to) * 1_000_000n),
    ...more,
  };
}

function said(values: Record<string, unknown>): object {
  return { attributes: Object.entries(values).map(([key, value]) => ({ key, value: { stringValue: JSON.stringify(value) } })) };
}

async function send(spans: object[]): Promise<void> {
  const answer = await fetch(`${yard.url}/v1/traces`, {
    method: "POST",
    headers: { authorization: `Bearer ${yard.token}`, "content-type": "application/json", "x-mlflow-experiment-id": "0", "x-mlflow-run-id": run },
    body: JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] }),
  });
  expect(answer.status).toBe(200);
}

beforeAll(async () => {
  await yard.start(0);
  const made = await yard.call<{ run: { info: { run_id: string } } }>("POST", "/api/2.0/mlflow/runs/create", { experiment_id: "0", run_name: "traced" });
  run = made.run.info.run_id;
  const [good, bad] = ["a".repeat(32), "b".repeat(32)];
  await send([
    span(good, 1, 0, "answer", 0, 1500, said({ "mlflow.spanType": "CHAIN", "mlflow.spanInputs": { question: "How warm is it?" }, "mlflow.spanOutputs": "21 degrees" })),
    span(good, 2, 1, "look up", 100, 700, said({ "mlflow.spanType": "RETRIEVER", documents: ["one", "two"] })),
    span(good, 3, 1, "ask the model", 700, 1450, said({ "mlflow.spanType": "LLM", model: "small" })),
    span(good, 4, 3, "tokenize", 705, 712),
  ]);
  await send([span(bad, 1, 0, "answer badly", 0, 40, { status: { code: 2, message: "no such city" } })]);
  await yard.call("POST", `/api/3.0/mlflow/traces/tr-${good}/assessments`, { assessment: { assessment_name: "helpful", feedback: { value: true }, rationale: "short and right", source: { source_type: "HUMAN", source_id: "ada" } } });
}, 300_000);
afterAll(() => yard.stop(), 300_000);

describe("the traces of a run", () => {
  test.each([false, true])("are listed and opened as a waterfall (dark: %s)", async (dark) => {
    const page = await yard.open(`/app/runs/${run}?tab=traces`, { dark });
    const rows = page.locator(".trace-list table > tbody > tr");
    await expect.poll(() => rows.count()).toBe(2);
    const failed = rows.filter({ hasText: "answer badly" });
    expect(await failed.getByText("failed", { exact: true }).count()).toBe(1);
    const open = page.getByRole("button", { name: "answer", exact: true });
    await open.click();
    const spans = page.getByRole("list", { name: "Spans" }).getByRole("listitem");
    await expect.poll(() => spans.count()).toBe(4);
    expect(await spans.allInnerTexts().then((all) => all.map((text) => text.split("\n")[0]?.trim()))).toEqual(["answer chain", "look up retriever", "ask the model llm", "tokenize"]);
    expect(await spans.nth(1).innerText()).toContain("600 ms");
    const boxes = await Promise.all([0, 1, 2].map((at) => spans.nth(at).locator(".bar").boundingBox()));
    const [whole, first, second] = boxes.map((box) => ({ left: box?.x ?? 0, right: (box?.x ?? 0) + (box?.width ?? 0) }));
    expect(first?.left).toBeGreaterThan(whole?.left ?? Infinity);
    expect(Math.abs((first?.right ?? 0) - (second?.left ?? 99))).toBeLessThan(3);
    expect(second?.right).toBeLessThanOrEqual((whole?.right ?? 0) + 1);
    await spans.nth(1).getByRole("button").click();
    await page.getByText("documents").waitFor();
    await page.getByText("Feedback helpful: true").waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
    if (process.env.YARD_PICTURES !== undefined) {
      await page.screenshot({ path: `${process.env.YARD_PICTURES}/traces-${dark ? "dark" : "light"}.png` });
    }
    await page.context().close();
  });

  test("say what to do where there are none", async () => {
    const other = await yard.call<{ run: { info: { run_id: string } } }>("POST", "/api/2.0/mlflow/runs/create", { experiment_id: "0" });
    const page = await yard.open(`/app/runs/${other.run.info.run_id}?tab=traces`, { width: 640 });
    await page.getByText("@mlflow.trace").waitFor();
    await page.context().close();
    expect(yard.complaints).toEqual([]);
    expect(yard.foreign).toEqual([]);
  });
});
