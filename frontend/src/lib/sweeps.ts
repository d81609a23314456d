/** What the pages of sweeps compute: counts in words, best so far, plots' data. Pure. */
import type { Explored } from "./explore";
import type { State } from "./states";

interface TrialLike {
  number: number;
  state: string;
  value: number | null;
  run_id: string;
  params: Record<string, string | number | boolean>;
  ended_ms: number | null;
}

const STATES: Record<string, State> = {
  running: { word: "running", icon: "ring", tone: "blue" },
  complete: { word: "complete", icon: "tick", tone: "green" },
  finished: { word: "finished", icon: "tick", tone: "green" },
  pruned: { word: "stopped early", icon: "pause", tone: "amber" },
  failed: { word: "failed", icon: "cross", tone: "red" },
  stopped: { word: "stopped", icon: "square", tone: "grey" },
};

/** The state of a sweep or a trial. */
export const sweepState = (word: string): State => STATES[word] ?? { word, icon: "square", tone: "grey" };

/** How many trials have ended, of how many. */
export function progressWords(counts: Record<string, number>, trials: number | null): string {
  const ended = Object.entries(counts).reduce((sum, [state, count]) => sum + (state === "running" ? 0 : count), 0);
  return trials === null ? String(ended) : `${ended} / ${trials}`;
}

/** A trial's numbers along the axes of a plot: parameters first, the metric last. */
export function explored(trials: readonly TrialLike[], names: readonly string[]): Explored[] {
  return trials
    .filter((trial) => trial.value !== null)
    .map((trial) => ({
      id: trial.run_id,
      name: `trial ${trial.number}`,
      values: [...names.map((name) => plain(trial.params[name])), trial.value],
    }));
}

const plain = (value: string | number | boolean | undefined): string | number | null =>
  value === undefined ? null : typeof value === "boolean" ? String(value) : value;

export interface Reached {
  number: number;
  value: number;
  best: number;
}

/** Complete trials in the order they ended, each with the best until then. */
export function bestSoFar(trials: readonly TrialLike[], goal: string): Reached[] {
  const better = goal === "maximize" ? Math.max : Math.min;
  let best: number | null = null;
  return trials
    .filter((trial): trial is TrialLike & { value: number } => trial.state === "complete" && trial.value !== null)
    .sort((a, b) => (a.ended_ms ?? 0) - (b.ended_ms ?? 0))
    .map((trial) => {
      best = best === null ? trial.value : better(best, trial.value);
      return { number: trial.number, value: trial.value, best };
    });
}

/** Trials for the table: the best first, what is worse or unknown after. */
export function ranked<T extends TrialLike>(trials: readonly T[], goal: string): T[] {
  const sign = goal === "maximize" ? -1 : 1;
  const group = (trial: T): number => (trial.value === null ? 2 : trial.state === "complete" || trial.state === "running" ? 0 : 1);
  return [...trials].sort((a, b) => group(a) - group(b) || sign * ((a.value ?? 0) - (b.value ?? 0)) || a.number - b.number);
}

/** `epochs=100, lr=0.1` as values; numbers and truth values as such. */
export function readValues(text: string): Record<string, string | number | boolean> {
  const pairs = text.split(/[\s,]+/).filter((part) => part.includes("="));
  return Object.fromEntries(
    pairs.map((part) => {
      const at = part.indexOf("=");
      return [part.slice(0, at), readValue(part.slice(at + 1))] as const;
    }),
  );
}

function readValue(text: string): string | number | boolean {
  if (text === "true" || text === "false") {
    return text === "true";
  }
  return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}
