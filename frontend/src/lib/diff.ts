/** Differences: between texts, line by line, and between the parameters of runs. Pure. */

export interface DiffLine {
  kind: "same" | "gone" | "new" | "changed";
  left: string | null;
  right: string | null;
  leftNumber: number | null;
  rightNumber: number | null;
}

/** Beyond this many lines on a side a diff is taken block by block instead of line by line. */
const MOST = 4000;

/** Line up two texts; lines that changed in the same place stand side by side. */
export function diffLines(left: string, right: string): DiffLine[] {
  const a = left.split("\n");
  const b = right.split("\n");
  return paired(script(a, b), a, b);
}

type Step = [0 | -1 | 1, number];

/** The longest common lines by Myers' greedy walk, as steps: 0 both, -1 left only, 1 right only. */
function script(a: readonly string[], b: readonly string[]): Step[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) {
    start += 1;
  }
  let endA = a.length;
  let endB = b.length;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  const steps: Step[] = [];
  for (let at = 0; at < start; at += 1) {
    steps.push([0, at]);
  }
  steps.push(...middle(a.slice(start, endA), b.slice(start, endB), start));
  for (let at = endA; at < a.length; at += 1) {
    steps.push([0, at]);
  }
  return steps;
}

function middle(a: readonly string[], b: readonly string[], shift: number): Step[] {
  const all = (): Step[] => [
    ...a.map((_, at): Step => [-1, at + shift]),
    ...b.map((_, at): Step => [1, at + shift]),
  ];
  if (a.length === 0 || b.length === 0 || a.length > MOST || b.length > MOST) {
    return all();
  }
  const trace = walk(a, b);
  return trace === null ? all() : unwind(trace, a, b, shift);
}

function walk(a: readonly string[], b: readonly string[]): Int32Array[] | null {
  const limit = Math.min(a.length + b.length, 2000);
  const size = 2 * limit + 1;
  let reach = new Int32Array(size);
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= limit; edits += 1) {
    trace.push(reach.slice());
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && (reach[limit + k - 1] ?? 0) < (reach[limit + k + 1] ?? 0));
      let x = down ? (reach[limit + k + 1] ?? 0) : (reach[limit + k - 1] ?? 0) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      reach[limit + k] = x;
      if (x >= a.length && y >= b.length) {
        return trace;
      }
    }
    reach = reach.slice();
  }
  return null;
}

function unwind(trace: readonly Int32Array[], a: readonly string[], b: readonly string[], shift: number): Step[] {
  const limit = Math.min(a.length + b.length, 2000);
  const steps: Step[] = [];
  let x = a.length;
  let y = b.length;
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reach = trace[edits] ?? new Int32Array(0);
    const k = x - y;
    const down = k === -edits || (k !== edits && (reach[limit + k - 1] ?? 0) < (reach[limit + k + 1] ?? 0));
    const before = down ? k + 1 : k - 1;
    const oldX = edits === 0 ? 0 : (reach[limit + before] ?? 0);
    const oldY = edits === 0 ? 0 : oldX - before;
    while (x > oldX && y > oldY && x > 0 && y > 0) {
      x -= 1;
      y -= 1;
      steps.push([0, x + shift]);
    }
    if (edits > 0 && down) {
      y -= 1;
      steps.push([1, y + shift]);
    } else if (edits > 0) {
      x -= 1;
      steps.push([-1, x + shift]);
    }
  }
  return steps.reverse();
}

function paired(steps: readonly Step[], a: readonly string[], b: readonly string[]): DiffLine[] {
  const lines: DiffLine[] = [];
  let gone: number[] = [];
  let added: number[] = [];
  let right = 0;
  const flush = (): void => {
    for (let at = 0; at < Math.max(gone.length, added.length); at += 1) {
      const l = gone[at];
      const r = added[at];
      lines.push({
        kind: l === undefined ? "new" : r === undefined ? "gone" : "changed",
        left: l === undefined ? null : (a[l] ?? ""),
        right: r === undefined ? null : (b[r] ?? ""),
        leftNumber: l === undefined ? null : l + 1,
        rightNumber: r === undefined ? null : r + 1,
      });
    }
    gone = [];
    added = [];
  };
  for (const [kind, at] of steps) {
    if (kind === -1) {
      gone.push(at);
    } else if (kind === 1) {
      added.push(at);
      right = at + 1;
    } else {
      flush();
      lines.push({ kind: "same", left: a[at] ?? "", right: b[right] ?? "", leftNumber: at + 1, rightNumber: right + 1 });
      right += 1;
    }
  }
  flush();
  return lines;
}

export interface Row {
  key: string;
  values: (string | null)[];
  differs: boolean;
}

/** Lay key-value pairs of several runs side by side and mark where they differ. */
export function compareMaps(maps: readonly ReadonlyMap<string, string>[]): Row[] {
  const keys = [...new Set(maps.flatMap((map) => [...map.keys()]))];
  const collator = new Intl.Collator("en", { numeric: true });
  keys.sort(collator.compare);
  return keys.map((key) => {
    const values = maps.map((map) => map.get(key) ?? null);
    return { key, values, differs: values.some((value) => value !== values[0]) };
  });
}

/** Which of some values stand out: those unlike the most common one, or unlike the first where none is. */
export function standOut(values: readonly (string | null | undefined)[]): boolean[] {
  const times = new Map<string, number>();
  for (const value of values) {
    const key = value ?? "";
    times.set(key, (times.get(key) ?? 0) + 1);
  }
  const first = values[0] ?? "";
  const usual = [...times].reduce((most, one) => (one[1] > most[1] ? one : most), [first, times.get(first) ?? 0] as [string, number])[0];
  return values.map((value) => (value ?? "") !== usual);
}
