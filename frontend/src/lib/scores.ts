/** The metrics that say how good a thing is, side by side, and which of them is the best. Pure. */
import { isSystem } from "./metric-names";

export interface Score {
  name: string;
  values: (number | null)[];
  /** the place of the best value, -1 where the name does not tell which way is better */
  best: number;
}

/** Which way is better, judged by the name; 0 where the name does not tell. */
export function better(name: string): -1 | 0 | 1 {
  if (/loss|error|perplexity|time|latency|rmse|mae/i.test(name)) {
    return -1;
  }
  return /acc|auc|f1|precision|recall|score|bleu|rouge|per_second/i.test(name) ? 1 : 0;
}

const rank = (name: string): number => (name.startsWith("test") ? 0 : /^(val|eval)/.test(name) ? 1 : 2) + (better(name) === 0 ? 3 : 0);

/** The first scores that most of them have: of tests before validation before training. */
export function scoresOf(maps: readonly ReadonlyMap<string, number | string | null>[], most = 3): Score[] {
  const names = [...new Set(maps.flatMap((map) => [...map.keys()]))].filter((name) => !isSystem(name) && better(name) !== 0);
  const had = (name: string): number => maps.filter((map) => typeof map.get(name) === "number").length;
  return names
    .filter((name) => had(name) > 0)
    .toSorted((a, b) => rank(a) - rank(b) || had(b) - had(a) || (a < b ? -1 : 1))
    .slice(0, most)
    .map((name) => {
      const values = maps.map((map) => {
        const value = map.get(name);
        return typeof value === "number" ? value : null;
      });
      const way = better(name);
      const best = values.reduce<number>((place, value, at) => (value !== null && (place < 0 || (value - (values[place] ?? value)) * way > 0) ? at : place), -1);
      return { name, values, best };
    });
}
