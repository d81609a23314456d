/** Columns of the runs table: their ids, names and how the server sorts by them. Pure.
 *
 * An id is `kind:key`, for a metric `metric:key@stat` with stat last, min, max or step (that of the last value).
 */

export type Stat = "last" | "min" | "max" | "step";
export type Column =
  | { kind: "attribute"; key: string }
  | { kind: "metric"; key: string; stat: Stat }
  | { kind: "param"; key: string }
  | { kind: "tag"; key: string }
  | { kind: "spark"; key: string };

export const ATTRIBUTES: Record<string, { title: string; order: string | null; width: number }> = {
  status: { title: "State", order: "attributes.status", width: 108 },
  started: { title: "Started", order: "attributes.start_time", width: 92 },
  duration: { title: "Duration", order: null, width: 84 },
  user: { title: "User", order: "attributes.user_id", width: 90 },
  experiment: { title: "Experiment", order: null, width: 150 },
  note: { title: "Description", order: "tags.`mlflow.note.content`", width: 220 },
  source: { title: "Source", order: "tags.`mlflow.source.name`", width: 140 },
  commit: { title: "Commit", order: "tags.`mlflow.source.git.commit`", width: 88 },
};

/** The tags behind attributes that are really tags. */
export const ATTRIBUTE_TAGS: Record<string, string> = {
  note: "mlflow.note.content",
  source: "mlflow.source.name",
  commit: "mlflow.source.git.commit",
};

/** The id of a column. */
export function columnId(column: Column): string {
  const stat = column.kind === "metric" && column.stat !== "last" ? `@${column.stat}` : "";
  return `${column.kind}:${column.key}${stat}`;
}

/** Read an id back; null for what is none. */
export function parseColumn(id: string): Column | null {
  const at = id.indexOf(":");
  const kind = id.slice(0, at);
  const key = id.slice(at + 1);
  if (at < 1 || key === "") {
    return null;
  }
  if (kind === "metric") {
    const stat = /@(min|max|last|step)$/.exec(key);
    return stat === null
      ? { kind, key, stat: "last" }
      : { kind, key: key.slice(0, stat.index), stat: stat[1] as Stat };
  }
  if (kind === "attribute") {
    return key in ATTRIBUTES ? { kind, key } : null;
  }
  return kind === "param" || kind === "tag" || kind === "spark" ? { kind, key } : null;
}

/** What stands in the head of a column. */
export function columnTitle(column: Column): string {
  if (column.kind === "attribute") {
    return ATTRIBUTES[column.key]?.title ?? column.key;
  }
  if (column.kind === "spark") {
    return `${column.key} curve`;
  }
  return column.kind === "metric" && column.stat !== "last" ? `${column.key} ${column.stat}` : column.key;
}

/** How wide a column is until someone drags it. */
export function columnWidth(column: Column): number {
  if (column.kind === "attribute") {
    return ATTRIBUTES[column.key]?.width ?? 110;
  }
  if (column.kind === "spark") {
    return 112;
  }
  return Math.min(190, Math.max(76, columnTitle(column).length * 7 + 30));
}

/** The server's order_by for a column, or null where only the page can sort. */
export function orderBy(column: Column): string | null {
  const name = `\`${column.key}\``;
  switch (column.kind) {
    case "attribute":
      return ATTRIBUTES[column.key]?.order ?? null;
    case "metric":
      return column.stat === "last" ? `metrics.${name}` : column.stat === "step" ? null : `${column.stat}(metrics.${name})`;
    case "param":
      return `params.${name}`;
    case "tag":
      return `tags.${name}`;
    case "spark":
      return `metrics.${name}`;
    default:
      return null;
  }
}

/** The columns a page starts with: state, time, the first metrics and parameters. */
export function defaultColumns(metrics: readonly string[], params: readonly string[]): string[] {
  const shown = metrics.filter((name) => !name.startsWith("system/"));
  const rank = (name: string): number => (/^(val|eval)/.test(name) ? 0 : name.startsWith("test") ? 1 : /loss|acc/.test(name) ? 2 : 3);
  const chosen = shown.map((name, at) => ({ name, at })).sort((a, b) => rank(a.name) - rank(b.name) || a.at - b.at);
  const first = chosen[0]?.name;
  return [
    "attribute:status",
    ...(first === undefined ? [] : [`metric:${first}`, `spark:${first}`]),
    "attribute:duration",
    ...chosen.slice(1, 5).map(({ name }) => `metric:${name}`),
    "attribute:started",
    ...params.slice(0, 8).map((name) => `param:${name}`),
  ];
}
