/** A node's health in words: verdicts with icon and tone, and what it is made of. Pure. */
import { bytes } from "./format";
import type { Tone } from "./states";

export interface HealthState {
  word: string;
  icon: "tick" | "warn" | "cross" | "help";
  tone: Tone;
}

const VERDICTS: Record<string, HealthState> = {
  ok: { word: "healthy", icon: "tick", tone: "green" },
  warn: { word: "warns", icon: "warn", tone: "amber" },
  fail: { word: "fails", icon: "cross", tone: "red" },
  unknown: { word: "not looked at", icon: "help", tone: "grey" },
};

/** The state of a node's health or of one check, by the server's word. */
export function verdictState(word: string): HealthState {
  return VERDICTS[word] ?? { word, icon: "help", tone: "grey" };
}

export interface Hardware {
  node_class: string;
  gpu_vendor: string;
  gpu_model: string;
  gpu_count: number;
  gpu_memory_bytes: number;
  driver: string;
  cuda: string;
  rocm: string;
}

/** What a node is made of, as names and values; what is not known is left out. */
export function hardwareRows(found: Hardware): [string, string][] {
  const rows: [string, string][] = [["Class", found.node_class]];
  if (found.gpu_count > 0) {
    const memory = found.gpu_memory_bytes > 0 ? `, ${bytes(found.gpu_memory_bytes)} each` : "";
    rows.push(["GPUs", `${found.gpu_count} × ${found.gpu_model} (${found.gpu_vendor}${memory})`]);
  }
  for (const [name, value] of [
    ["Driver", found.driver],
    ["CUDA", found.cuda],
    ["ROCm", found.rocm],
  ] as const) {
    if (value !== "") {
      rows.push([name, value]);
    }
  }
  return rows;
}

export interface CheckLike {
  name: string;
  verdict: string;
}

/** Checks with the gravest first, and else by name. */
export function byGravity<T extends CheckLike>(checks: readonly T[]): T[] {
  const rank = (check: T): number => ["fail", "warn", "ok"].indexOf(check.verdict);
  return [...checks].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}
