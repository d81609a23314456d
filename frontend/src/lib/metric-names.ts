/** Metric names: which are the machine's own, and in which folder a panel goes. Pure. */

/** Where MLflow's clients put what they sample of the machine. */
export const SYSTEM = "system/";

export interface Folder {
  name: string;
  metrics: string[];
}

/** Whether a metric was sampled of the machine rather than logged by the training. */
export function isSystem(name: string): boolean {
  return name.startsWith(SYSTEM);
}

/** The part before the last slash; none for a plain name. */
export function folderOf(name: string): string {
  const at = name.lastIndexOf("/");
  return at > 0 ? name.slice(0, at) : "";
}

/** The part after the last slash. */
export function leafOf(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}

/** Sort names as people count: gpu_2 before gpu_10. */
export function inOrder(names: readonly string[]): string[] {
  // Numbers are padded to one width; the browser's own collator is slow to set up on the first page.
  const keyed = names.map((name) => ({ name, key: name.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(15, "0")) }));
  return keyed.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)).map(({ name }) => name);
}

/** Put metrics into folders by the part before the last slash; plain names come first. */
export function folders(names: readonly string[]): Folder[] {
  const found = new Map<string, string[]>();
  for (const name of inOrder(names)) {
    const folder = folderOf(name);
    const held = found.get(folder);
    if (held === undefined) {
      found.set(folder, [name]);
    } else {
      held.push(name);
    }
  }
  return [...found.entries()]
    .map(([name, metrics]) => ({ name, metrics }))
    .sort((a, b) => (a.name === "" ? -1 : b.name === "" ? 1 : a.name < b.name ? -1 : 1));
}

/** Which part of the machine a system metric tells of. */
export function machinePart(name: string): string {
  const plain = name.slice(SYSTEM.length);
  const leaf = leafOf(plain);
  const node = plain.includes("/") ? `${folderOf(plain)} · ` : "";
  const gpu = /^gpu_(\d+)_/.exec(leaf);
  if (gpu !== null) {
    return `${node}GPU ${gpu[1] ?? ""}`;
  }
  const parts: [RegExp, string][] = [
    [/^cpu/, "CPU"],
    [/memory/, "Memory"],
    [/^disk/, "Disk"],
    [/^network/, "Network"],
  ];
  return node + (parts.find(([pattern]) => pattern.test(leaf))?.[1] ?? "Other");
}

/** The range of a share of the machine: all of it, so that panels can be read against each other. */
export function fixedRange(name: string): readonly [number, number] | null {
  return isSystem(name) && name.endsWith("_percentage") ? [0, 100] : null;
}

/** A system metric without what its section says already: `utilization_percentage` -> `utilization %`. */
export function machineLabel(name: string): string {
  return leafOf(name)
    .replace(/^gpu_\d+_/, "")
    .replace(/_percentage$/, " %")
    .replace(/_megabytes$/, " MB")
    .replace(/_MB$/, " MB")
    .replace(/_watts$/, " W")
    .replace(/_/g, " ");
}

/** Where a part of the machine stands: what is dearest first. */
export function machineRank(part: string): number {
  const order = ["GPU", "CPU", "Memory", "Disk", "Network"];
  const at = order.findIndex((word) => part.includes(word));
  return at < 0 ? order.length : at;
}
