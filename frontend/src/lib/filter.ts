/** Completion in MLflow's search language: what may come at the caret. Pure; the server judges the whole. */

export interface Names {
  metrics: readonly string[];
  params: readonly string[];
  tags: readonly string[];
}

export interface Suggestion {
  /** what to show */
  label: string;
  /** what to put in place of the piece at the caret */
  insert: string;
  /** a word on what it is */
  hint: string;
}

export interface Completion {
  /** where the piece to replace begins */
  from: number;
  suggestions: Suggestion[];
}

const ATTRIBUTES = ["run_name", "status", "user_id", "start_time", "end_time", "run_id"];
const STATUSES = ["RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"];
const MOST = 12;
const TOKEN = /\s+|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?|<=|>=|!=|[=<>(),]|[^\s=<>!(),'"`]+(?:`[^`]*`?|"[^"]*"?)?/g;

interface Token {
  text: string;
  from: number;
}

/** What is asked of the server: words without any comparison look for runs by name. */
export function asFilter(text: string): string {
  const pieces = tokens(text);
  const compares = pieces.some(({ text: piece }) => /^([=<>!]+|I?LIKE|IN|IS|NOT)$/i.test(piece));
  if (pieces.length === 0 || compares) {
    return text;
  }
  return text
    .trim()
    .split(/\s+/)
    .map((word) => word.replace(/['"\\%`]/g, ""))
    .filter((word) => word !== "" && !/^(AND|OR)$/.test(word))
    .map((word) => `attributes.run_name ILIKE '%${word}%'`)
    .join(" AND ");
}

/** Cut a filter into its pieces. */
export function tokens(text: string): Token[] {
  return [...text.matchAll(TOKEN)]
    .map((match) => ({ text: match[0], from: match.index }))
    .filter((token) => token.text.trim() !== "");
}

/** A name as the language wants it: in backticks where it holds more than letters. */
export function quoted(name: string): string {
  return /^[A-Za-z_][\w.]*$/.test(name) ? name : `\`${name}\``;
}

type Kind = "metric" | "param" | "tag" | "attribute";

function kindOf(field: string): Kind {
  const head = field.split(".")[0]?.toLowerCase() ?? "";
  if (head.startsWith("metric")) {
    return "metric";
  }
  if (head.startsWith("param")) {
    return "param";
  }
  return head.startsWith("tag") ? "tag" : "attribute";
}

function fields(names: Names): Suggestion[] {
  const make = (prefix: string, hint: string) => (name: string) => ({
    label: `${prefix}.${name}`,
    insert: `${prefix}.${quoted(name)} `,
    hint,
  });
  return [
    ...names.metrics.map(make("metrics", "metric")),
    ...names.params.map(make("params", "parameter")),
    ...ATTRIBUTES.map(make("attributes", "attribute")),
    ...names.tags.map(make("tags", "tag")),
  ];
}

function operators(kind: Kind, field: string): Suggestion[] {
  const numeric = kind === "metric" || field.endsWith("_time");
  const words = numeric
    ? [">", ">=", "<", "<=", "=", "!="]
    : ["=", "!=", "LIKE", "ILIKE", ...(kind === "attribute" ? [] : ["IS NULL", "IS NOT NULL"])];
  return words.map((word) => ({ label: word, insert: `${word} `, hint: "compare" }));
}

function values(kind: Kind, field: string, known: readonly string[]): Suggestion[] {
  const words = field.endsWith("status") ? STATUSES : known;
  if (kind === "metric") {
    return [];
  }
  return words.map((word) => ({ label: `'${word}'`, insert: `'${word}' `, hint: "value" }));
}

/** Say which kind of piece the last whole pieces ask for. */
function expected(before: readonly Token[]): { want: "field" | "operator" | "value" | "and"; field: string } {
  let field = "";
  let want: "field" | "operator" | "value" | "and" = "field";
  for (const { text } of before) {
    const word = text.toUpperCase();
    if (want === "field") {
      field = text;
      want = "operator";
    } else if (want === "operator") {
      want = word === "IS" || word === "NOT" ? "operator" : word === "NULL" ? "and" : "value";
    } else if (want === "value") {
      want = "and";
    } else {
      want = word === "AND" || word === "OR" ? "field" : "and";
    }
  }
  return { want, field };
}

/** What may come at the caret. `known` gives values seen for a field, e.g. of a parameter. */
export function complete(
  text: string,
  caret: number,
  names: Names,
  known: (field: string) => readonly string[] = () => [],
): Completion {
  const all = tokens(text.slice(0, caret));
  const last = all[all.length - 1];
  const open = last !== undefined && last.from + last.text.length === caret && !/^[=<>!]+$/.test(last.text);
  const piece = open && last !== undefined ? last : { text: "", from: caret };
  const { want, field } = expected(open ? all.slice(0, -1) : all);
  const kind = kindOf(field);
  let found: Suggestion[];
  if (want === "field") {
    found = fields(names);
  } else if (want === "operator") {
    found = operators(kind, field);
  } else if (want === "value") {
    found = values(kind, field, known(field));
  } else {
    found = ["AND", "OR"].map((word) => ({ label: word, insert: `${word} `, hint: "and so on" }));
  }
  const wanted = piece.text.toLowerCase().replace(/[`'"]/g, "");
  const matching = found
    .filter((one) => one.label.toLowerCase().replace(/['"]/g, "").includes(wanted))
    .filter((one) => one.label.toLowerCase() !== piece.text.toLowerCase());
  const starts = (one: Suggestion): boolean =>
    one.label.toLowerCase().replace(/^(metrics|params|tags|attributes)\./, "").startsWith(wanted);
  matching.sort((a, b) => Number(starts(b)) - Number(starts(a)));
  return { from: piece.from, suggestions: matching.slice(0, MOST) };
}

/** Put a suggestion in place of the piece at the caret; say where the caret goes. */
export function accept(text: string, caret: number, from: number, insert: string): { text: string; caret: number } {
  const rest = text.slice(caret).replace(/^\s+/, "");
  return { text: text.slice(0, from) + insert + rest, caret: from + insert.length };
}
