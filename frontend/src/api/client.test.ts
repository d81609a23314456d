// @vitest-environment node
import { afterEach, describe, expect, test, vi } from "vitest";

import { ask, dropAsked, Fault, json } from "./client";
import { refusalOf } from "./leases";

afterEach(() => {
  dropAsked();
  vi.unstubAllGlobals();
});

const answers = (...texts: [number, string][]): ReturnType<typeof vi.fn> => {
  const fetched = vi.fn(async (_address: string) => {
    const [status, text] = texts.shift() ?? [500, "{}"];
    return new Response(text, { status });
  });
  vi.stubGlobal("fetch", fetched);
  return fetched;
};

describe("what is asked ahead", () => {
  test("is taken by the first call for the same address, and by no other", async () => {
    const fetched = answers([200, '{"n":1}'], [200, '{"n":2}'], [200, '{"n":3}']);
    void ask("/api/v1/things", { key: ["a", "b"] });
    expect(await json("/api/v1/things", { query: { key: ["b"] } })).toEqual({ n: 2 });
    expect(await json("/api/v1/things", { query: { key: ["a", "b"] } })).toEqual({ n: 1 });
    expect(await json("/api/v1/things", { query: { key: ["a", "b"] } })).toEqual({ n: 3 });
    expect(fetched).toHaveBeenCalledTimes(3);
  });

  test("is asked for again where the server refused, and never serves a change", async () => {
    answers([401, "{}"], [200, '{"n":2}'], [200, '{"n":3}'], [200, '{"n":4}']);
    void ask("/api/v1/things");
    expect(await json("/api/v1/things")).toEqual({ n: 2 });
    void ask("/api/v1/things");
    expect(await json("/api/v1/things", { method: "POST", body: {} })).toEqual({ n: 4 });
  });
});

test("a refused lease tells what is in the way; other faults are no refusal", async () => {
  answers([409, '{"error_code":"LEASE_REFUSED","message":"no","details":{"refusal":"overlap","sentence":"g03 is promised","conflicts":[{"name":"thesis"}]}}']);
  const fault: unknown = await json("/api/v1/leases", { method: "POST", body: {} }).catch((cause: unknown) => cause);
  expect(refusalOf(fault)).toMatchObject({ refusal: "overlap", sentence: "g03 is promised", conflicts: [{ name: "thesis" }], slots: [], jobs: [] });
  expect([refusalOf(new Fault(409, "OTHER", "no")), refusalOf(new Error("no"))]).toEqual([null, null]);
});
