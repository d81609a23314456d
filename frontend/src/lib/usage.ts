/** Words, colours and shapes of usage. Pure. */

/** Classes of GPU time in the order they are drawn, with their words and colours. */
export const CLASSES: readonly { name: string; word: string; colour: string; what: string }[] = [
  { name: "productive", word: "Productive", colour: "var(--green)", what: "computed, and the work counts" },
  { name: "starting_package", word: "Package", colour: "var(--blue)", what: "the job starts, its package is fetched" },
  { name: "starting_environment", word: "Environment", colour: "var(--use-environment)", what: "its setup is built" },
  { name: "starting_load", word: "Load", colour: "var(--use-load)", what: "running, before the first step" },
  { name: "checkpointing", word: "Checkpointing", colour: "var(--use-checkpoint)", what: "waits for a checkpoint" },
  { name: "lost", word: "Lost", colour: "var(--red)", what: "computed after the last checkpoint, and gone" },
  { name: "stalled", word: "Stalled", colour: "var(--violet)", what: "no progress within what was promised" },
  { name: "idle_held", word: "Held, idle", colour: "var(--amber)", what: "held by a job, under 5 % busy" },
  { name: "idle_leased", word: "Leased, idle", colour: "var(--use-leased)", what: "leased, and no job on it" },
  { name: "free", word: "Free", colour: "var(--line-strong)", what: "ready, and nobody's" },
  { name: "broken", word: "Broken", colour: "var(--use-broken)", what: "down, quarantined or drained" },
];

/** States of a cell of the fleet's map. */
export const CELLS: Readonly<Record<string, { word: string; colour: string }>> = {
  u: { word: "Used", colour: "var(--blue)" },
  i: { word: "Held, idle", colour: "var(--amber)" },
  l: { word: "Leased, idle", colour: "var(--use-leased)" },
  b: { word: "Broken", colour: "var(--red)" },
  f: { word: "Free", colour: "var(--grey-soft)" },
  ".": { word: "Not there", colour: "transparent" },
};

/** Parts of a bar in percent, in the order of the classes; nothing for what is not there. */
export function parts(classes: Readonly<Record<string, number>>): { name: string; percent: number }[] {
  const total = Object.values(classes).reduce((sum, hours) => sum + hours, 0);
  if (total <= 0) {
    return [];
  }
  const found = CLASSES.map(({ name }) => ({ name, percent: (100 * (classes[name] ?? 0)) / total }));
  return found.filter((one) => one.percent > 0);
}

/** GPU-hours as people read them. */
export function hours(value: number): string {
  if (value !== 0 && Math.abs(value) < 0.05) {
    return value.toPrecision(2);
  }
  return value.toLocaleString("en", { maximumFractionDigits: value < 100 ? 1 : 0 });
}

/** A ratio as percent. */
export function percent(value: number | null | undefined): string {
  return value === null || value === undefined ? "—" : `${(100 * value).toFixed(1)} %`;
}

/** An amount of money. */
export function money(value: number, currency: string): string {
  return `${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })} ${currency}`;
}

/** The months up to a moment (UTC), the newest first, as in 2026-10. */
export function months(now: number, many: number): string[] {
  const date = new Date(now);
  return Array.from({ length: many }, (_, back) => {
    const one = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - back, 1));
    return `${one.getUTCFullYear()}-${String(one.getUTCMonth() + 1).padStart(2, "0")}`;
  });
}

/** A row of cells as one picture: equal neighbours are one stripe; a part-time state is paler. */
export function stripes(cells: string, levels: string): string {
  const stops: string[] = [];
  let from = 0;
  for (let at = 1; at <= cells.length; at += 1) {
    if (at < cells.length && cells[at] === cells[from] && levels[at] === levels[from]) {
      continue;
    }
    const colour = shade(cells[from] ?? ".", Number(levels[from] ?? "9"));
    stops.push(`${colour} ${place(from, cells.length)} ${place(at, cells.length)}`);
    from = at;
  }
  return stops.length === 0 ? "none" : `linear-gradient(to right, ${stops.join(", ")})`;
}

const place = (at: number, of: number): string => `${((100 * at) / of).toFixed(3)}%`;

function shade(letter: string, level: number): string {
  const { colour } = CELLS[letter] ?? { colour: "transparent" };
  if (level >= 9 || letter === "f" || letter === ".") {
    return colour;
  }
  return `color-mix(in srgb, ${colour} ${Math.max(25, (level + 1) * 10)}%, var(--grey-soft))`;
}

/** The points of a curve in a box of 100 by 100, from the bottom up. */
export function curve(values: readonly number[], most: number): string {
  const step = 100 / Math.max(1, values.length - 1);
  const height = (value: number): string => (100 - (100 * value) / Math.max(1, most)).toFixed(2);
  return values.map((value, at) => `${(at * step).toFixed(2)},${height(value)}`).join(" ");
}
