/** A log as it grows: pieces of text made into lines, the way a terminal would show them. Pure. */

/** Colours and cursor moves of a terminal; they mean nothing here. */
// oxlint-disable-next-line no-control-regex -- escape sequences begin with a control sign
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** Lines kept at most; older ones are dropped from the front. */
export const MOST_LINES = 200_000;

/** One line as a terminal leaves it: what follows the last return overwrites what came before. */
export function settled(line: string): string {
  const plain = line.replace(ESCAPES, "").replace(/\r+$/, "");
  const at = plain.lastIndexOf("\r");
  return at < 0 ? plain : plain.slice(at + 1);
}

export class LogText {
  /** whole lines, and the one being written at the end */
  lines: readonly string[] = [];
  /** how many lines were dropped from the front */
  dropped = 0;
  private rest = "";
  private readonly most: number;

  constructor(most = MOST_LINES) {
    this.most = most;
  }

  /** Take the next piece; a line may come in several. */
  append(piece: string): void {
    const parts = (this.rest + piece).split("\n");
    const kept = this.rest === "" ? this.lines : this.lines.slice(0, -1);
    this.rest = parts.pop() ?? "";
    const next = [...kept, ...parts.map(settled), ...(this.rest === "" ? [] : [settled(this.rest)])];
    const surplus = Math.max(0, next.length - this.most);
    this.dropped += surplus;
    this.lines = surplus === 0 ? next : next.slice(surplus);
  }

  /** Put an earlier stretch before what is here; it ends where this begins. */
  prepend(piece: string): void {
    const parts = piece.replace(/\n$/, "").split("\n").map(settled);
    this.lines = [...parts, ...this.lines];
  }
}

export type Level = "error" | "warn" | null;

/** How grave a line looks. */
export function levelOf(line: string): Level {
  if (/\b(error|exception|traceback|fatal|critical|panic|segfault|killed)\b|Error:/i.test(line)) {
    return "error";
  }
  return /\bwarn(ing)?\b/i.test(line) ? "warn" : null;
}

/** How many bytes of a long log are read at first. */
export const BEGUN = 1024 * 1024;

/** Where to begin in a long log: not further back than so many bytes. */
export function startAt(size: number, most = BEGUN): number {
  return size > most ? size - most : 0;
}
