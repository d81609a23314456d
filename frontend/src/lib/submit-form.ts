/** The submit form: what is written in it, the wish it makes, and the `yard submit` line that does the same. Pure. */
import { amountOfMemory, amountOfTime, readMemory, readPairs, readTime, splitCommand } from "./amounts";
import { gitFault, ofGit, viaGit } from "./git-source";
import { shell } from "./yard-line";

/** What a job is: a command, JupyterLab, or a web app that the server's proxy leads to. */
export type Kind = "command" | "notebook" | "app";

export interface Form {
  kind: Kind;
  command: string;
  /** interpreter that has JupyterLab */
  python: string;
  /** time without use after which a notebook or an app is stopped */
  idle: string;
  data: string;
  name: string;
  experiment: string;
  gpus: string;
  gpuType: string;
  nodes: string;
  cpus: string;
  memory: string;
  time: string;
  estimate: string;
  queue: string;
  priority: string;
  team: string;
  preemptible: boolean;
  retries: string;
  after: string;
  array: string;
  env: string;
  pip: string;
  lease: string;
  labels: string;
  same: string;
  exclusive: boolean;
  style: string;
  launcher: string;
  processes: string;
  grace: string;
  progress: string;
  hold: boolean;
  tags: string;
  /** the packaged folder it runs in: dropped here, or that of the job this one is copied from */
  package: string;
  packageFormat: string;
  /** a repository that is fetched into the folder before the command runs, and what of it */
  git: string;
  gitRef: string;
}

export const EMPTY: Form = {
  kind: "command",
  command: "",
  python: "",
  idle: "",
  data: "",
  name: "",
  experiment: "",
  gpus: "1",
  gpuType: "",
  nodes: "1",
  cpus: "",
  memory: "",
  time: "",
  estimate: "",
  queue: "",
  priority: "normal",
  team: "",
  preemptible: false,
  retries: "",
  after: "",
  array: "",
  env: "",
  pip: "",
  lease: "",
  labels: "",
  same: "",
  exclusive: false,
  style: "",
  launcher: "plain",
  processes: "",
  grace: "",
  progress: "",
  hold: false,
  tags: "",
  package: "",
  packageFormat: "zip",
  git: "",
  gitRef: "",
};

export const PRIORITIES = ["scavenge", "low", "normal", "high", "urgent"] as const;
export const LAUNCHERS = ["plain", "torchrun", "accelerate", "mpirun", "batch"] as const;
export const STYLES = ["", "pack", "spread", "balanced", "least-fragmentation"] as const;
export const KINDS: readonly (readonly [Kind, string])[] = [
  ["command", "A command"],
  ["notebook", "JupyterLab"],
  ["app", "A web app, such as Streamlit or TensorBoard"],
];
/** A notebook's name and lasting folder, and its idle limit, as `yard notebook` has them. */
const NOTEBOOK = "notebook";
const IDLE_SECONDS = 7200;
const ENDINGS = ["success", "failure", "any-end"];

export type Fields = Record<string, unknown> & { command: string[] };
export interface Read {
  fields: Fields | null;
  faults: Partial<Record<keyof Form, string>>;
}

type Faults = Partial<Record<keyof Form, string>>;

/** Read the form into a wish; null while the command is empty or something is wrong. */
export function readForm(written: Form): Read {
  // A notebook works in its lasting folder, so code that was chosen before does not count.
  const form = written.kind === "notebook" ? { ...written, git: "", gitRef: "", package: "" } : written;
  const faults: Faults = {};
  const fields: Record<string, unknown> = {};
  const command = form.kind === "notebook" ? jupyter(form.python) : readCommand(form.command, faults);
  readWords(form, fields);
  readInteractive(form, fields, faults);
  readNumbers(form, fields, faults);
  readTimes(form, fields, faults);
  readLists(form, fields, faults);
  readGit(form, faults);
  const bad = Object.keys(faults).length > 0 || command.length === 0;
  const whole = form.git.trim() === "" ? command : viaGit(form.git.trim(), form.gitRef.trim(), command);
  return { fields: bad ? null : { ...fields, command: whole }, faults };
}

function readGit(form: Form, faults: Faults): void {
  if (form.git.trim() === "") {
    if (form.gitRef.trim() !== "") {
      faults.git = "Which repository? Or leave the commit empty";
    }
    return;
  }
  const fault = gitFault(form.git.trim(), form.gitRef.trim());
  if (fault !== null) {
    faults[fault.about] = fault.sentence;
  } else if (form.package !== "") {
    faults.git = "Either a folder or a repository: remove one of them";
  } else if (form.launcher !== "plain") {
    faults.git = `Each process of ${form.launcher} would fetch it: choose the launcher plain, or drop a folder instead`;
  }
}

const jupyter = (python: string): string[] => (python.trim() === "" ? ["jupyter-lab"] : [python.trim(), "-m", "jupyterlab"]);

function readInteractive(form: Form, fields: Record<string, unknown>, faults: Faults): void {
  if (form.kind === "command") {
    return;
  }
  const idle = form.idle.trim() === "" ? IDLE_SECONDS : form.idle.trim() === "0" ? 0 : readTime(form.idle);
  if (idle === null) {
    faults.idle = "With units, as in 30m; 0 for never";
    return;
  }
  const interactive: Record<string, unknown> = { kind: form.kind, ...(idle === 0 ? {} : { idle_seconds: idle }) };
  if (form.kind === "notebook") {
    fields.name ??= NOTEBOOK;
    interactive.folder = fields.name;
  }
  fields.interactive = interactive;
}

function readCommand(text: string, faults: Faults): string[] {
  const words = splitCommand(text);
  if (words === null) {
    faults.command = "A quote is still open";
    return [];
  }
  return words;
}

const WORDS = { name: "name", experiment: "experiment", queue: "queue", team: "team", array: "array", lease: "lease", same: "same", style: "style", package: "package" } as const;

function readWords(form: Form, fields: Record<string, unknown>): void {
  for (const [key, field] of Object.entries(WORDS) as [keyof typeof WORDS, string][]) {
    if (form[key].trim() !== "") {
      fields[field] = form[key].trim();
    }
  }
  if (form.package !== "") {
    fields.package_format = form.packageFormat;
  }
  for (const key of ["preemptible", "exclusive", "hold"] as const) {
    if (form[key]) {
      fields[key] = true;
    }
  }
  if (form.priority !== "normal") {
    fields.priority = form.priority;
  }
  if (form.launcher !== "plain") {
    fields.launcher = form.launcher;
  }
}

const NUMBERS = {
  gpus: { field: "gpus", whole: false, start: 0 },
  nodes: { field: "nodes", whole: true, start: 1 },
  cpus: { field: "cpus", whole: false, start: 0 },
  retries: { field: "retries", whole: true, start: 0 },
  processes: { field: "processes_per_node", whole: true, start: null },
} as const;

function readNumbers(form: Form, fields: Record<string, unknown>, faults: Faults): void {
  for (const [key, { field, whole, start }] of Object.entries(NUMBERS) as [keyof typeof NUMBERS, (typeof NUMBERS)[keyof typeof NUMBERS]][]) {
    const text = form[key].trim();
    if (text === "") {
      continue;
    }
    const value = Number(text);
    if (!Number.isFinite(value) || value < 0 || (whole && !Number.isInteger(value))) {
      faults[key] = whole ? "A whole number" : "A number, such as 2 or 0.5";
    } else if (value !== start) {
      fields[field] = value;
    }
  }
  if (form.memory.trim() !== "") {
    const value = readMemory(form.memory);
    if (value === null) {
      faults.memory = "With a unit, as in 500M or 64G";
    } else {
      fields.memory_bytes = value;
    }
  }
}

const TIMES = { time: "time_limit_seconds", estimate: "estimate_seconds", grace: "grace_seconds", progress: "progress_seconds" } as const;

function readTimes(form: Form, fields: Record<string, unknown>, faults: Faults): void {
  for (const [key, field] of Object.entries(TIMES) as [keyof typeof TIMES, string][]) {
    if (form[key].trim() === "") {
      continue;
    }
    const value = readTime(form[key]);
    if (value === null) {
      faults[key] = "With units, as in 45m or 2h30m";
    } else {
      fields[field] = value;
    }
  }
}

const commas = (text: string): string[] => text.split(/[,\s]+/).filter((word) => word !== "");

function readLists(form: Form, fields: Record<string, unknown>, faults: Faults): void {
  const types = form.gpuType.split(",").map((word) => word.trim()).filter((word) => word !== "");
  if (types.length > 0) {
    fields.gpu_types = types;
  }
  const after = commas(form.after).map((word) => {
    const [job = "", when = "success"] = word.split(":");
    return { job, when };
  });
  if (after.some((one) => one.job === "" || !ENDINGS.includes(one.when))) {
    faults.after = "JOB, or JOB:any-end";
  } else if (after.length > 0) {
    fields.after = after;
  }
  const data = commas(form.data);
  if (data.length > 0) {
    fields.data = data;
  }
  const pip = form.pip.split("\n").map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
  if (pip.length > 0) {
    fields.pip = pip;
  }
  for (const [key, field] of [["env", "env"], ["labels", "labels"], ["tags", "tags"]] as const) {
    const { pairs, fault } = readPairs(form[key]);
    if (fault !== null) {
      faults[key] = fault;
    } else if (Object.keys(pairs).length > 0) {
      fields[field] = pairs;
    }
  }
}

const option = (flag: string, value: unknown): string[] => (value === undefined ? [] : [flag, shell(String(value as string | number))]);
const pairsOf = (flag: string, pairs: unknown): string[] =>
  Object.entries((pairs ?? {}) as Record<string, string>).flatMap(([name, value]) => [flag, shell(`${name}=${value}`)]);
const timeOption = (flag: string, seconds: unknown): string[] => (typeof seconds === "number" ? [flag, amountOfTime(seconds)] : []);

interface Interactive {
  kind: string;
  idle_seconds?: number;
}

/** The verb of a wish, with what only `yard notebook` knows. */
function verbOf(fields: Fields, asked: Interactive | undefined): string[] {
  if (asked === undefined) {
    return ["yard submit"];
  }
  const [python = "", flag] = fields.command;
  const idle = asked.idle_seconds ?? 0;
  return [
    "yard notebook",
    ...(asked.kind === "app" ? ["--app", shell(fields.command.map(shell).join(" "))] : []),
    ...(asked.kind === "notebook" && flag === "-m" ? ["--python", shell(python)] : []),
    ...(idle === IDLE_SECONDS ? [] : ["--idle", idle === 0 ? "0" : amountOfTime(idle)]),
  ];
}

/** The `yard submit` or `yard notebook` line of a wish. */
export function submitLine(fields: Fields): string {
  const after = (fields.after ?? []) as { job: string; when: string }[];
  const asked = fields.interactive as Interactive | undefined;
  const words = [
    ...verbOf(fields, asked),
    ...(asked?.kind === "notebook" && fields.name === NOTEBOOK ? [] : option("--name", fields.name)),
    ...option("--experiment", fields.experiment),
    ...option("--gpus", fields.gpus),
    ...option("--gpu-type", (fields.gpu_types as string[] | undefined)?.join(",")),
    ...option("--nodes", fields.nodes),
    ...option("--cpus", fields.cpus),
    ...(typeof fields.memory_bytes === "number" ? ["--memory", amountOfMemory(fields.memory_bytes)] : []),
    ...timeOption("--time", fields.time_limit_seconds),
    ...timeOption("--estimate", fields.estimate_seconds),
    ...option("--queue", fields.queue),
    ...option("--priority", fields.priority),
    ...option("--team", fields.team),
    ...(fields.preemptible === true ? ["--preemptible"] : []),
    ...option("--retries", fields.retries),
    ...after.flatMap((one) => ["--after", one.when === "success" ? one.job : `${one.job}:${one.when}`]),
    ...option("--array", fields.array),
    ...((fields.data ?? []) as string[]).flatMap((name) => ["--data", shell(name)]),
    ...pairsOf("--env", fields.env),
    ...(fields.pip === undefined ? [] : ["--pip requirements.txt"]),
    ...option("--lease", fields.lease),
    ...pairsOf("--label", fields.labels),
    ...option("--same", fields.same),
    ...(fields.exclusive === true ? ["--exclusive"] : []),
    ...option("--style", fields.style),
    ...option("--launcher", fields.launcher),
    ...option("--processes-per-node", fields.processes_per_node),
    ...timeOption("--grace", fields.grace_seconds),
    ...timeOption("--progress", fields.progress_seconds),
    ...(fields.hold === true ? ["--hold"] : []),
    ...pairsOf("--tag", fields.tags),
    ...(fields.package === undefined && asked?.kind !== "notebook" ? ["--no-working-dir"] : []),
    ...(asked === undefined ? ["--", ...fields.command.map(shell)] : []),
  ];
  return words.join(" ");
}

/** A version of a data set, as a stored job names it. */
interface DataInput {
  name: string;
  version?: number;
  variable?: string;
}

/** What one would write for it; the usual variable goes without saying. */
const referenceOf = ({ name, version, variable = "" }: DataInput): string =>
  `${variable === "" || variable.startsWith("YARD_DATA_") ? "" : `${variable}=`}${name}${version === undefined ? "" : `@v${version}`}`;

interface Source {
  job: { name: string; queue: string; priority: string; gpus: number; nodes: number; cpus: number; memory_bytes: number; gpu_types: string[]; preemptible: boolean; time_limit_seconds: number | null };
  spec: Record<string, unknown>;
}

const lines = (pairs: unknown): string => Object.entries((pairs ?? {}) as Record<string, string>).map(([name, value]) => `${name}=${value}`).join("\n");
const time = (seconds: unknown): string => (typeof seconds === "number" ? amountOfTime(seconds) : "");

/** Command, code and kind of a stored job, as the form has them. */
function whatRuns(spec: Source["spec"]): Partial<Form> {
  const command = (spec.command ?? []) as string[];
  const asked = spec.interactive as Interactive | undefined | null;
  const idle = time(asked?.idle_seconds) || "0";
  if (asked?.kind === "notebook") {
    return { kind: "notebook", idle, python: command[1] === "-m" ? (command[0] ?? "") : "" };
  }
  const git = ofGit(command);
  const code = { command: (git?.command ?? command).map(shell).join(" "), git: git?.address ?? "", gitRef: git?.ref ?? "" };
  return asked?.kind === "app" ? { ...code, kind: "app", idle } : code;
}

/** The form that would submit a job like this one; dependencies are left out. */
export function formOf({ job, spec }: Source): Form {
  const text = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "");
  return {
    ...EMPTY,
    ...whatRuns(spec),
    data: ((spec.data ?? []) as DataInput[]).map(referenceOf).join("\n"),
    name: job.name,
    gpus: String(job.gpus / Math.max(1, job.nodes)),
    gpuType: job.gpu_types.join(", "),
    nodes: String(job.nodes),
    cpus: job.cpus > 0 ? String(job.cpus) : "",
    memory: job.memory_bytes > 0 ? amountOfMemory(job.memory_bytes) : "",
    time: time(job.time_limit_seconds),
    estimate: time(spec.estimate_seconds),
    queue: job.queue === "default" ? "" : job.queue,
    priority: job.priority,
    preemptible: job.preemptible,
    retries: text(spec.retries),
    env: lines(spec.env),
    pip: ((spec.pip ?? []) as string[]).join("\n"),
    labels: lines(spec.labels),
    same: text(spec.same),
    exclusive: spec.exclusive === true,
    style: text(spec.style),
    launcher: text(spec.launcher) || "plain",
    processes: text(spec.processes_per_node),
    grace: time(spec.grace_seconds),
    progress: time(spec.progress_seconds),
    lease: text(spec.lease),
    package: text(spec.package),
    packageFormat: text(spec.package_format) || "zip",
  };
}
