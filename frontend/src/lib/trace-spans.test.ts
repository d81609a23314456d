import { describe, expect, it } from "vitest";

import { readSpans, waterfall } from "./trace-spans";

/** As MLflow's clients write `traces.json`. */
const FILE = [
  { span_id: "b", parent_span_id: "a", name: "inner", start_time_unix_nano: 2_000_000, end_time_unix_nano: 4_000_000, status: { code: "STATUS_CODE_ERROR", message: "broken" }, attributes: { "mlflow.spanInputs": '{"x": 1}' } },
  { span_id: "a", parent_span_id: null, name: "outer", start_time_unix_nano: 1_000_000, end_time_unix_nano: 5_000_000, status: { code: "STATUS_CODE_OK" }, attributes: { "mlflow.spanType": '"CHAIN"' } },
];

/** As they come over OpenTelemetry. */
const SENT = [
  { span_id: "a", name: "outer", start_time_unix_nano: 1_000_000, end_time_unix_nano: 5_000_000, attributes: [{ key: "words", value: { array_value: { values: [{ string_value: "x" }, { int_value: 2 }] } } }] },
];

describe("spans", () => {
  it("are read from a client's file, the earliest first", () => {
    const [outer, inner] = readSpans(FILE);
    expect(outer).toMatchObject({ name: "outer", kind: "CHAIN", start: 0, length: 4, failed: false, parent: null });
    expect(inner).toMatchObject({ name: "inner", start: 1, length: 2, failed: true, message: "broken", parent: "a" });
    expect(inner?.attributes).toEqual([["Inputs", '{\n  "x": 1\n}']]);
  });

  it("are read as OpenTelemetry sends them", () => {
    expect(readSpans(SENT)[0]?.attributes).toEqual([["words", '[\n  "x",\n  2\n]']]);
  });
});

describe("the waterfall", () => {
  it("puts children below their parents, in their share of the whole", () => {
    const rows = waterfall(readSpans(FILE));
    expect(rows.map((row) => [row.name, row.depth, row.left, row.width])).toEqual([
      ["outer", 0, 0, 1],
      ["inner", 1, 0.25, 0.5],
    ]);
  });

  it("shows spans whose parent is missing or is themselves, each once", () => {
    const odd = readSpans([
      { span_id: "a", parent_span_id: "a", name: "own", start_time_unix_nano: 1, end_time_unix_nano: 1 },
      { span_id: "b", parent_span_id: "gone", name: "orphan", start_time_unix_nano: 1, end_time_unix_nano: 1 },
      { span_id: "c", parent_span_id: "d", name: "ring", start_time_unix_nano: 1, end_time_unix_nano: 1 },
      { span_id: "d", parent_span_id: "c", name: "ring too", start_time_unix_nano: 1, end_time_unix_nano: 1 },
    ]);
    expect(waterfall(odd).map((row) => row.name).sort()).toEqual(["orphan", "own", "ring", "ring too"]);
  });
});
