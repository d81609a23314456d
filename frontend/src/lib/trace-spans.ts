/** Spans of a trace, from either form that MLflow keeps them in, laid out as a waterfall. Pure. */

export interface Span {
  id: string;
  parent: string | null;
  name: string;
  kind: string;
  /** milliseconds since the trace began */
  start: number;
  length: number;
  failed: boolean;
  message: string;
  attributes: [key: string, value: string][];
}

export interface Row extends Span {
  depth: number;
  /** shares of the whole, from 0 to 1 */
  left: number;
  width: number;
}

interface RawSpan {
  span_id?: string;
  parent_span_id?: string | null;
  parent_id?: string | null;
  context?: { span_id?: string };
  name?: string;
  start_time_unix_nano?: number | string;
  end_time_unix_nano?: number | string | null;
  start_time?: number;
  end_time?: number | null;
  status?: { code?: string; message?: string };
  status_code?: string;
  attributes?: Record<string, unknown> | { key: string; value?: AnyValue }[];
}

interface AnyValue {
  string_value?: string;
  bool_value?: boolean;
  int_value?: number | string;
  double_value?: number | string;
  array_value?: { values?: AnyValue[] };
  kvlist_value?: { values?: { key: string; value?: AnyValue }[] };
}

/** The spans of a trace, the earliest first. */
export function readSpans(raw: readonly unknown[]): Span[] {
  const spans = raw as readonly RawSpan[];
  const began = Math.min(...spans.map(startOf));
  return spans.map((span) => readSpan(span, began)).sort((a, b) => a.start - b.start);
}

function startOf(span: RawSpan): number {
  return Number(span.start_time_unix_nano ?? span.start_time ?? 0);
}

function readSpan(span: RawSpan, began: number): Span {
  const start = startOf(span);
  const end = Number(span.end_time_unix_nano ?? span.end_time ?? start);
  const attributes = attributesOf(span);
  const code = span.status?.code ?? span.status_code ?? "";
  return {
    id: span.span_id ?? span.context?.span_id ?? "",
    parent: span.parent_span_id ?? span.parent_id ?? null,
    name: span.name ?? "",
    kind: plain(attributes.get("mlflow.spanType")) ?? "",
    start: (start - began) / 1e6,
    length: Math.max(end - start, 0) / 1e6,
    failed: code.endsWith("ERROR"),
    message: span.status?.message ?? "",
    attributes: [...attributes].filter(([key]) => !HIDDEN.has(key)).map(([key, value]) => [key.replace(/^mlflow\.span/, ""), shown(value)]),
  };
}

const HIDDEN = new Set(["mlflow.spanType", "mlflow.traceRequestId", "mlflow.spanLogLevel"]);

function attributesOf(span: RawSpan): Map<string, unknown> {
  const found = span.attributes ?? {};
  if (Array.isArray(found)) {
    return new Map(found.map((pair) => [pair.key, valueOf(pair.value ?? {})]));
  }
  return new Map(Object.entries(found).map(([key, value]) => [key, parsed(value)]));
}

/** MLflow's clients write each attribute's value as JSON text. */
function parsed(value: unknown): unknown {
  if (typeof value !== "string") {
    return value;
  }
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function valueOf(value: AnyValue): unknown {
  if (value.array_value !== undefined) {
    return (value.array_value.values ?? []).map(valueOf);
  }
  if (value.kvlist_value !== undefined) {
    return Object.fromEntries((value.kvlist_value.values ?? []).map((pair) => [pair.key, valueOf(pair.value ?? {})]));
  }
  return parsed(value.string_value) ?? value.bool_value ?? value.int_value ?? value.double_value ?? null;
}

function plain(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** The rows of a waterfall: children below their parents, each with its place in the whole. */
export function waterfall(spans: readonly Span[]): Row[] {
  const end = Math.max(...spans.map((span) => span.start + span.length), 0);
  const total = end > 0 ? end : 1;
  const known = new Set(spans.map((span) => span.id));
  const children = new Map<string | null, Span[]>();
  for (const span of spans) {
    const parent = span.parent !== null && known.has(span.parent) && span.parent !== span.id ? span.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), span]);
  }
  const rows: Row[] = [];
  const seen = new Set<string>();
  const add = (span: Span, depth: number): void => {
    if (seen.has(span.id)) {
      return;
    }
    seen.add(span.id);
    rows.push({ ...span, depth, left: span.start / total, width: span.length / total });
    for (const child of children.get(span.id) ?? []) {
      add(child, depth + 1);
    }
  };
  for (const root of children.get(null) ?? []) {
    add(root, 0);
  }
  for (const span of spans) {
    add(span, 0);
  }
  return rows;
}
