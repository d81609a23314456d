/** Looser matching of names: by substring, by pattern, by letters in order. Pure. */

/** Make a test of names: `/pattern/` or a pattern with special signs is one, else a substring. */
export function matcher(query: string): (name: string) => boolean {
  const wanted = query.trim();
  if (wanted === "") {
    return () => true;
  }
  if (/[\\^$*+?()[\]{}|]/.test(wanted)) {
    try {
      const pattern = new RegExp(wanted, "i");
      return (name) => pattern.test(name);
    } catch {
      // Half a pattern is what people have while they type: take it by the letter.
    }
  }
  const words = wanted.toLowerCase().split(/\s+/);
  return (name) => words.every((word) => name.toLowerCase().includes(word));
}

/** How well a name answers a query: higher is better, null is not at all. */
export function score(query: string, name: string): number | null {
  const wanted = query.trim().toLowerCase();
  const text = name.toLowerCase();
  if (wanted === "") {
    return 0;
  }
  const at = text.indexOf(wanted);
  if (at >= 0) {
    return 1000 - at - text.length / 100 + (at === 0 ? 100 : 0);
  }
  let place = -1;
  let gaps = 0;
  for (const letter of wanted.replace(/\s+/g, "")) {
    const next = text.indexOf(letter, place + 1);
    if (next < 0) {
      return null;
    }
    gaps += next - place - 1;
    place = next;
  }
  return 500 - gaps - text.length / 100;
}

/** Whether a name holds the very letters of a query, side by side. */
export function holds(query: string, name: string): boolean {
  return name.toLowerCase().includes(query.trim().toLowerCase());
}

/** The best answers to a query, best first. */
export function best<T>(query: string, items: readonly T[], name: (item: T) => string, most = 20): T[] {
  return items
    .map((item, order) => ({ item, order, score: score(query, name(item)) }))
    .filter((entry) => entry.score !== null)
    .sort((a, b) => (b.score ?? 0) - (a.score ?? 0) || a.order - b.order)
    .slice(0, most)
    .map((entry) => entry.item);
}
