/** What the fenced blocks of a report say: run sets and charts, one `key: value` a line. Pure. */
import { columnId, orderBy, parseColumn, type Column } from "./columns";
import { asFilter } from "./filter";
import { parseExpression } from "./expression";
import { parseMarkdown, type Block } from "./markdown";
import type { XAxis } from "./view";

/** Which runs, in which order, and what is shown of them. */
export interface RunSet {
  /** how charts refer to it; empty where nothing does */
  name: string;
  title: string;
  /** names of experiments; none means all of the team's */
  experiments: string[];
  filter: string;
  order: string[];
  limit: number;
  columns: Column[];
}

export interface ReportChart {
  title: string;
  /** a metric, or an expression over metrics where `isExpression` */
  y: string;
  x: string;
  isExpression: boolean;
  /** a set of its own, or the name of one that a `runs` block defines */
  runs: RunSet | string;
  axis: XAxis;
  smoothing: number;
  logX: boolean;
  logY: boolean;
  /** runs with the same value are drawn as one line: their mean, with the range around it */
  group: Column | null;
}

export type Live = { kind: "runs"; set: RunSet } | { kind: "chart"; chart: ReportChart } | { kind: "fault"; fault: string };

export const MAX_RUNS = 100;
const DEFAULT_RUNS = 10;
const AXES: Record<string, XAxis> = { step: "step", time: "time", "relative time": "relative", relative: "relative" };
const SET_KEYS = ["experiment", "filter", "order", "limit"];
const RUNS_KEYS = [...SET_KEYS, "name", "title", "columns"];
const CHART_KEYS = [...SET_KEYS, "metric", "expression", "against", "title", "runs", "x", "smoothing", "log", "group"];

/** The languages of code blocks that are drawn live. */
export const isLiveBlock = (language: string): boolean => language === "runs" || language === "chart";

/** Read a block; what is wrong with it becomes a sentence. */
export function readBlock(language: string, text: string): Live {
  try {
    const words = pairs(text, language === "runs" ? RUNS_KEYS : CHART_KEYS);
    return language === "runs" ? { kind: "runs", set: readSet(words) } : { kind: "chart", chart: readChart(words) };
  } catch (cause) {
    return { kind: "fault", fault: cause instanceof Error ? cause.message : String(cause) };
  }
}

/** The run sets that a report defines, by name. */
export function setsOf(text: string): Map<string, RunSet> {
  const found = new Map<string, RunSet>();
  for (const block of codeBlocks(parseMarkdown(text))) {
    const live = block.language === "runs" ? readBlock("runs", block.text) : null;
    if (live?.kind === "runs" && live.set.name !== "" && !found.has(live.set.name)) {
      found.set(live.set.name, live.set);
    }
  }
  return found;
}

function codeBlocks(blocks: readonly Block[]): Extract<Block, { kind: "code" }>[] {
  return blocks.flatMap((block) => (block.kind === "code" ? [block] : block.kind === "quote" ? codeBlocks(block.children) : []));
}

function pairs(text: string, known: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const line of text.split("\n").map((one) => one.trim())) {
    if (line === "" || line.startsWith("#")) {
      continue;
    }
    const colon = line.indexOf(":");
    const key = line.slice(0, Math.max(0, colon)).trim().toLowerCase();
    if (!known.includes(key)) {
      throw new Error(`“${line.slice(0, 60)}” is not understood. Write one setting per line, as in “limit: 10”; there are ${known.join(", ")}.`);
    }
    if (found.has(key)) {
      throw new Error(`“${key}” is given twice.`);
    }
    found.set(key, line.slice(colon + 1).trim());
  }
  return found;
}

const list = (text: string | undefined): string[] => (text ?? "").split(",").map((one) => one.trim()).filter((one) => one !== "");

function readSet(words: ReadonlyMap<string, string>): RunSet {
  const limit = words.get("limit") ?? String(DEFAULT_RUNS);
  if (!/^\d+$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_RUNS) {
    throw new Error(`limit is a whole number from 1 to ${MAX_RUNS}, not “${limit}”.`);
  }
  return {
    name: words.get("name") ?? "",
    title: words.get("title") ?? "",
    experiments: list(words.get("experiment")),
    filter: asFilter(words.get("filter") ?? ""),
    order: list(words.get("order")).map(readOrder),
    limit: Number(limit),
    columns: list(words.get("columns")).map(readColumn),
  };
}

const KINDS: Record<string, Column["kind"]> = { metrics: "metric", params: "param", tags: "tag", attributes: "attribute", curve: "spark" };

/** A column as people write it: `metrics.val/loss`, `params.lr`, `metrics.loss@min`, `duration`. */
export function readColumn(text: string): Column {
  const dot = text.indexOf(".");
  const kind = KINDS[text.slice(0, Math.max(0, dot))];
  const found = parseColumn(kind === undefined ? `attribute:${text}` : `${kind}:${text.slice(dot + 1).replace(/`/g, "")}`);
  if (found === null) {
    throw new Error(`“${text}” is no column. Write metrics.NAME (or metrics.NAME@min, @max), params.NAME, tags.NAME, curve.METRIC, status, started, duration, user or experiment.`);
  }
  return found;
}

function readOrder(text: string): string {
  const words = /^(.*?)(?:\s+(asc|desc))?$/i.exec(text);
  const column = readColumn(words?.[1] ?? text);
  const by = orderBy(column);
  if (by === null) {
    throw new Error(`Runs cannot be ordered by ${columnId(column).replace(":", " ")}.`);
  }
  return `${by} ${(words?.[2] ?? "asc").toUpperCase()}`;
}

function readChart(words: ReadonlyMap<string, string>): ReportChart {
  const group = words.get("group") ?? "";
  const log = words.get("log") ?? "";
  if (!/^(x|y|x,? ?y|)$/i.test(log)) {
    throw new Error("log is x, y or xy.");
  }
  return {
    title: words.get("title") ?? "",
    ...readLines(words),
    runs: readRuns(words),
    axis: readAxis(words.get("x") ?? "step"),
    smoothing: readSmoothing(words.get("smoothing") ?? "0"),
    logX: /x/i.test(log),
    logY: /y/i.test(log),
    group: group === "" ? null : readColumn(group),
  };
}

/** What is drawn: one metric, or an expression, perhaps against another. */
function readLines(words: ReadonlyMap<string, string>): Pick<ReportChart, "y" | "x" | "isExpression"> {
  const [metric, expression, against] = [words.get("metric") ?? "", words.get("expression") ?? "", words.get("against") ?? ""];
  if ((metric === "") === (expression === "")) {
    throw new Error("A chart needs either “metric: NAME” or “expression: …”.");
  }
  if (against !== "" && expression === "") {
    throw new Error("“against” goes with “expression”; a metric is drawn over steps or time (“x: time”).");
  }
  [expression, against].filter((one) => one !== "").forEach(parseExpression);
  return { y: metric === "" ? expression : metric, x: against, isExpression: metric === "" };
}

function readAxis(text: string): XAxis {
  const axis = AXES[text.toLowerCase()];
  if (axis === undefined) {
    throw new Error(`x is step, time or relative, not “${text}”.`);
  }
  return axis;
}

function readSmoothing(text: string): number {
  const smoothing = Number(text);
  if (!(smoothing >= 0 && smoothing < 1)) {
    throw new Error("smoothing is a number from 0 to 0.99.");
  }
  return smoothing;
}

function readRuns(words: ReadonlyMap<string, string>): RunSet | string {
  const name = words.get("runs") ?? "";
  if (name === "") {
    return readSet(words);
  }
  const extra = SET_KEYS.find((key) => words.has(key));
  if (extra !== undefined) {
    throw new Error(`“runs: ${name}” says which runs are drawn; put “${extra}” into that run set instead.`);
  }
  return name;
}

/** What a new report starts with; a metric of the team's makes its chart show something. */
export const templateFor = (metric: string, experiment: string): string => `What was tried, and what came of it.

\`\`\`runs
name: best
title: The best runs
experiment: ${experiment}
order: metrics.${metric}
limit: 5
columns: status, metrics.${metric}, curve.${metric}, duration, started
\`\`\`

\`\`\`chart
metric: ${metric}
runs: best
\`\`\`

## What we learned

`;
