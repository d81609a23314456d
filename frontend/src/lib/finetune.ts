/** What a fine-tuning run's metrics say of its plan, its memory and its samples. Pure. */

export const METHOD_TAG = "yard.finetune.method";
export const SPEED = ["mfu", "tokens_per_second", "memory/peak_gib"] as const;

const MEMORY = [
  ["weights", "memory/weights_gib"],
  ["gradients", "memory/gradients_gib"],
  ["optimizer", "memory/optimizer_gib"],
  ["activations", "memory/activations_gib"],
] as const;

export interface MemoryPart {
  part: (typeof MEMORY)[number][0];
  gib: number;
}

/** Memory by part, as last logged; parts that need nothing are left out. */
export function memoryParts(last: ReadonlyMap<string, number>): MemoryPart[] {
  return MEMORY.map(([part, key]) => ({ part, gib: last.get(key) ?? 0 })).filter((one) => one.gib > 0);
}

export interface Comparison {
  what: string;
  unit: string;
  predicted: number;
  actual: number | null;
  /** how far the prediction was off, of the actual value */
  off: number | null;
}

/** Predicted beside actual, for what the run has compared. */
export function comparisons(last: ReadonlyMap<string, number>): Comparison[] {
  const found: Comparison[] = [];
  for (const [what, unit, key] of [
    ["Peak memory", "GiB", "peak_gib"],
    ["Step time", "s", "step_seconds"],
  ] as const) {
    const predicted = last.get(`plan/predicted_${key}`);
    const actual = last.get(`plan/actual_${key}`) ?? null;
    if (predicted !== undefined) {
      const off = actual === null || actual === 0 ? null : predicted / actual - 1;
      found.push({ what, unit, predicted, actual, off });
    }
  }
  return found;
}

export interface Sample {
  step: number;
  path: string;
}

/** The files with generated text, by the step they were made at. */
export function samplesOf(paths: readonly string[]): Sample[] {
  return paths
    .flatMap((path) => {
      const match = /step-(\d+)\.md$/.exec(path);
      return match === null ? [] : [{ step: Number(match[1]), path }];
    })
    .sort((one, other) => one.step - other.step);
}
