/** Limits as people write them in forms: a number, a time, a size of memory, or nothing for no limit. Pure. */
import { amountOfMemory, amountOfTime, readMemory, readTime } from "./amounts";

export type LimitKind = "number" | "whole" | "time" | "memory";

/** What a limit reads as in a form. */
export function limitText(value: number | null | undefined, kind: LimitKind): string {
  if (value === null || value === undefined) {
    return "";
  }
  return kind === "time" ? amountOfTime(value) : kind === "memory" ? amountOfMemory(value) : String(value);
}

/** A limit as it was written: null for none, undefined where it cannot be read. */
export function readLimit(text: string, kind: LimitKind): number | null | undefined {
  const plain = text.trim();
  if (plain === "") {
    return null;
  }
  if (kind === "time" || kind === "memory") {
    return (kind === "time" ? readTime(plain) : readMemory(plain)) ?? undefined;
  }
  const value = Number(plain);
  return !Number.isFinite(value) || value < 0 || (kind === "whole" && !Number.isInteger(value)) ? undefined : value;
}
