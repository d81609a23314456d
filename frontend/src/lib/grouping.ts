/** Groups of runs: rows that agree in some columns, with the mean, least and greatest of their metrics. Pure. */

export interface Group {
  /** the agreed values joined: stable while the group lives */
  id: string;
  values: string[];
  rows: number[];
}

/** Put rows into groups by the given cells, in order of first sight. */
export function groupRows(count: number, keys: readonly ((row: number) => string)[]): Group[] {
  const found = new Map<string, Group>();
  for (let row = 0; row < count; row += 1) {
    const values = keys.map((key) => key(row));
    const id = JSON.stringify(values);
    const group = found.get(id);
    if (group === undefined) {
      found.set(id, { id, values, rows: [row] });
    } else {
      group.rows.push(row);
    }
  }
  return [...found.values()];
}

export type Line = { group: Group; row: null } | { group: Group | null; row: number };

/** Lay groups out as lines: a head for each, then its rows unless it is folded. */
export function layOut(groups: readonly Group[], folded: ReadonlySet<string>): Line[] {
  return groups.flatMap((group): Line[] => [
    { group, row: null },
    ...(folded.has(group.id) ? [] : group.rows.map((row): Line => ({ group, row }))),
  ]);
}

export interface Summary {
  count: number;
  mean: number;
  min: number;
  max: number;
}

/** Mean, least and greatest of the numbers among some cells; null when there is none. */
export function summarise(values: Iterable<number | string | null | undefined>): Summary | null {
  let total = 0;
  let count = 0;
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    const number = typeof value === "number" ? value : Number.NaN;
    if (Number.isFinite(number)) {
      total += number;
      count += 1;
      min = Math.min(min, number);
      max = Math.max(max, number);
    }
  }
  return count === 0 ? null : { count, mean: total / count, min, max };
}
