/** The `yard` line that does what a button does. Pure: one place knows how the words go. */

/** A word as a shell takes it. */
export function shell(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}

const line = (...words: string[]): string => ["yard", ...words].join(" ");
const option = (flag: string, values: readonly string[]): string[] =>
  values.flatMap((value) => [flag, shell(value)]);

export interface RunsQuery {
  experiments: readonly string[];
  filter: string;
  order: readonly string[];
  deleted: boolean;
}

export const yard = {
  experiments: (): string => line("experiments"),
  newExperiment: (name: string): string => line("experiments", "--create", shell(name)),
  runs: (query: RunsQuery): string =>
    line(
      "runs",
      ...option("-e", query.experiments),
      ...(query.filter === "" ? [] : option("-f", [query.filter])),
      ...option("-o", query.order),
      ...(query.deleted ? ["--deleted"] : []),
    ),
  show: (run: string): string => line("show", run),
  diff: (runs: readonly string[]): string => line("diff", ...runs),
  rename: (run: string, name: string): string => line("edit", run, "--name", shell(name)),
  note: (run: string, text: string): string => line("edit", run, "--note", shell(text)),
  tag: (runs: readonly string[], key: string, value: string): string =>
    line("edit", ...runs, "--tag", shell(`${key}=${value}`)),
  untag: (runs: readonly string[], key: string): string => line("edit", ...runs, "--untag", shell(key)),
  remove: (runs: readonly string[]): string => line("edit", ...runs, "--delete"),
  restore: (runs: readonly string[]): string => line("edit", ...runs, "--restore"),
  data: (...words: string[]): string => line("data", ...words.map(shell)),
  submitData: (version: string): string => line("submit", "--data", shell(version), "--", "python", "train.py"),
  models: (name?: string): string => line("models", ...(name === undefined ? [] : [shell(name)])),
  register: (run: string, path: string, model: string): string =>
    line("register", run, shell(path), shell(model)),
  alias: (model: string, version: string, alias: string): string =>
    line("alias", shell(model), shell(alias), version),
  unalias: (model: string, alias: string): string => line("alias", shell(model), shell(alias), "--remove"),
  editModel: (model: string, ...words: string[]): string => line("edit", "--model", shell(model), ...words.map(shell)),
  editExperiment: (name: string, ...words: string[]): string => line("edit", "--experiment", shell(name), ...words.map(shell)),
  logbook: (name?: string): string => line("logbook", ...(name === undefined ? [] : [shell(name)])),
  logbookNote: (run: string | null, text: string): string => line("logbook", ...(run === null ? [] : [run]), "--note", shell(text)),
  digest: (unit: string, period: string): string => line("logbook", `--${unit}`, ...(period === "this" ? [] : [shell(period)])),
  events: (run?: string): string => line("events", ...(run === undefined ? [] : ["--run", run])),
  token: (): string => line("token", "create"),
};

/** Run ids in a line, cut short where there are many. */
export function few(runs: readonly string[], most = 4): string[] {
  return runs.length <= most ? [...runs] : [...runs.slice(0, most), "…"];
}
