/** Plans for fine-tuning as the page shows them: the request in the address, parts of memory, order, the `yard` line. Pure. */
import { shell } from "./yard-line";

export interface PlanStep {
  total: number;
}

export interface Plan {
  summary: string;
  setup: { micro_batch: number; accumulation: number; method: string; sharding: string };
  memory_bytes: Record<string, number>;
  needed_bytes: number;
  host_bytes: number;
  step_seconds: PlanStep;
  tokens_per_second: number;
  mfu: number;
  gpu_hours: number;
  price: number | null;
  source: string;
}

export interface PlanRejection {
  summary: string;
  reason: string;
  needed_bytes: number;
}

export interface PlanSet {
  gpu: string;
  gpu_memory_bytes: number;
  price_per_gpu_hour: number | null;
  gpus: number;
  nodes: number;
  plans: Plan[];
  rejected: PlanRejection[];
  answers: Record<string, string>;
}

/** What a plan is asked for, as the form and the address hold it. */
export interface PlanForm {
  model: string;
  gpu: string;
  gpus: string;
  nodes: string;
  seq: string;
  batch: string;
  tokens: string;
  method: string;
  precision: string;
  checkpointing: string;
  optimizer: string;
  loss: string;
  sharding: string;
  packing: string;
}

export const DEFAULTS: PlanForm = {
  model: "llama-3.1-8b",
  gpu: "H200",
  gpus: "1",
  nodes: "1",
  seq: "2048",
  batch: "16",
  tokens: "100000000",
  method: "",
  precision: "",
  checkpointing: "",
  optimizer: "",
  loss: "",
  sharding: "",
  packing: "",
};

export const CHOICES = ["method", "precision", "checkpointing", "optimizer", "loss", "sharding"] as const;

/** The form that an address holds; what it leaves out has its default. */
export function planForm(search: Record<string, string>): PlanForm {
  const known = Object.keys(DEFAULTS) as (keyof PlanForm)[];
  return Object.fromEntries(known.map((key) => [key, search[key] ?? DEFAULTS[key]])) as unknown as PlanForm;
}

/** The address of a form: only what differs from the defaults, so that links stay short. */
export function planSearch(form: PlanForm): Record<string, string> {
  return Object.fromEntries(Object.entries(form).filter(([key, value]) => value !== DEFAULTS[key as keyof PlanForm]));
}

/** A request's body, or the sentence that says what is wrong with the form. */
export function planBody(form: PlanForm): { body: Record<string, unknown> } | { fault: string } {
  const numbers: Record<string, number> = {};
  for (const [field, word] of [
    ["gpus", "GPUs per node"],
    ["nodes", "Nodes"],
    ["seq", "Sequence length"],
    ["batch", "Global batch"],
    ["tokens", "Tokens"],
  ] as const) {
    const value = Number(form[field]);
    if (form[field].trim() === "" || !Number.isFinite(value) || value < 1 || (field !== "tokens" && !Number.isInteger(value))) {
      return { fault: `${word} must be a whole number of at least 1.` };
    }
    numbers[field === "batch" ? "global_batch" : field] = value;
  }
  const chosen = CHOICES.filter((name) => form[name] !== "").map((name) => [name, form[name]]);
  return { body: { model: form.model, gpu: form.gpu, ...numbers, ...Object.fromEntries(chosen), packing: form.packing !== "" } };
}

/** The command that plans the same. */
export function planLine(form: PlanForm): string {
  const flags: [string, string, string][] = [
    ["--gpu", form.gpu, DEFAULTS.gpu],
    ["--gpus", form.gpus, DEFAULTS.gpus],
    ["--nodes", form.nodes, DEFAULTS.nodes],
    ["--seq", form.seq, DEFAULTS.seq],
    ["--global-batch", form.batch, DEFAULTS.batch],
    ["--tokens", form.tokens, DEFAULTS.tokens],
    ...CHOICES.map((name): [string, string, string] => [`--${name}`, form[name], ""]),
  ];
  const words = flags.filter(([, value, usual]) => value !== usual).map(([flag, value]) => `${flag} ${shell(value)}`);
  return ["yard plan", shell(form.model), ...words, ...(form.packing === "" ? [] : ["--packing"])].join(" ");
}

/** The parts of a GPU's memory, in the order in which a bar shows them. */
export const PARTS = ["weights", "gradients", "optimizer", "activations", "logits", "buffers"] as const;
export type Part = (typeof PARTS)[number];

export interface Slice {
  part: Part;
  bytes: number;
  /** of the GPU's memory */
  share: number;
}

/** The slices of a plan's bar; a part that needs nothing has none. */
export function slices(plan: Plan, gpuBytes: number): Slice[] {
  return PARTS.map((part) => ({ part, bytes: plan.memory_bytes[part] ?? 0, share: (plan.memory_bytes[part] ?? 0) / gpuBytes })).filter(
    (one) => one.bytes > 0,
  );
}

export const COLUMNS = {
  rank: { word: "#", of: (_plan: Plan, rank: number) => rank },
  summary: { word: "Plan", of: (plan: Plan) => plan.summary },
  batch: { word: "Batch", of: (plan: Plan) => plan.setup.micro_batch },
  peak: { word: "Peak", of: (plan: Plan) => plan.memory_bytes.total ?? 0 },
  step: { word: "Step", of: (plan: Plan) => plan.step_seconds.total },
  speed: { word: "Tokens/s", of: (plan: Plan) => plan.tokens_per_second },
  mfu: { word: "MFU", of: (plan: Plan) => plan.mfu },
  hours: { word: "GPU-hours", of: (plan: Plan) => plan.gpu_hours },
  price: { word: "Price", of: (plan: Plan) => plan.price ?? Number.POSITIVE_INFINITY },
} as const;
export type Column = keyof typeof COLUMNS;

/** Plans with their rank, in the order of a column; the planner's own order breaks ties. */
export function sorted(plans: readonly Plan[], column: Column, isDown: boolean): { plan: Plan; rank: number }[] {
  const ranked = plans.map((plan, at) => ({ plan, rank: at + 1 }));
  const { of } = COLUMNS[column];
  const way = isDown ? -1 : 1;
  return ranked.sort((one, other) => {
    const [a, b] = [of(one.plan, one.rank), of(other.plan, other.rank)];
    return a === b ? one.rank - other.rank : a < b ? -way : way;
  });
}

/** Memory in GiB, as GPUs are sold. */
export const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
