/** From the sampled load of nodes to lines over time. Pure. */
export interface LoadLike {
  since_ms: number;
  width_ms: number;
  loads: readonly { node_id: string; what: string; points: readonly { at_ms: number; mean: number }[] }[];
}

export interface LoadLine {
  name: "GPU" | "CPU" | "memory";
  /** mean over the time that was sampled, in percent */
  mean: number;
  /** share of the way from the left, and percent; null where nothing was sampled */
  points: { at: number; value: number | null }[];
}

/** One line each for the GPUs, the processors and the memory of all nodes, where they were sampled. */
export function loadLines(history: LoadLike, until: number): LoadLine[] {
  const names = [
    ["GPU", (what: string) => what.startsWith("gpu")],
    ["CPU", (what: string) => what === "cpu"],
    ["memory", (what: string) => what === "memory"],
  ] as const;
  return names.flatMap(([name, takes]) => {
    const sums = new Map<number, { total: number; count: number }>();
    for (const load of history.loads.filter((one) => takes(one.what))) {
      for (const { at_ms, mean } of load.points) {
        const sum = sums.get(at_ms) ?? { total: 0, count: 0 };
        sums.set(at_ms, { total: sum.total + mean, count: sum.count + 1 });
      }
    }
    if (sums.size === 0) {
      return [];
    }
    const points: LoadLine["points"] = [];
    let total = 0;
    for (let at = history.since_ms; at < until; at += history.width_ms) {
      const sum = sums.get(at);
      const value = sum === undefined ? null : sum.total / sum.count;
      total += value ?? 0;
      points.push({ at: (at + history.width_ms / 2 - history.since_ms) / (until - history.since_ms), value });
    }
    return [{ name, mean: total / sums.size, points }];
  });
}

/** The pieces of a line as an SVG path in a box; gaps where nothing was sampled, a dash for a lone point. */
export function loadPath(line: LoadLine, width: number, height: number): string {
  let path = "";
  let isOpen = false;
  const half = width / Math.max(1, line.points.length) / 2;
  line.points.forEach(({ at, value }, index) => {
    if (value === null) {
      isOpen = false;
      return;
    }
    const [x, y] = [at * width, height - (Math.min(100, value) / 100) * height];
    const isLone = !isOpen && (line.points[index + 1]?.value ?? null) === null;
    path += isOpen ? `L${x.toFixed(1)} ${y.toFixed(1)}` : `M${(isLone ? x - half : x).toFixed(1)} ${y.toFixed(1)}`;
    path += isLone ? `L${(x + half).toFixed(1)} ${y.toFixed(1)}` : "";
    isOpen = true;
  });
  return path;
}
