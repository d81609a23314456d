/** The GPUs of a cluster as cells: who holds each, how healthy its node is, in natural order. Pure. */
import { coloursOf } from "./colour";
import { inOrder } from "./metric-names";
import { matcher } from "./search";

interface HolderLike {
  job_id: string;
  name: string;
  user: string;
  team: string;
  share: number;
}

export interface GpuLike {
  index: number;
  type: string;
  free: number;
  holders: readonly HolderLike[];
}

export interface NodeLike {
  node_id: string;
  state: string;
  health: string;
  note: string;
  gpus: readonly GpuLike[];
  labels: Readonly<Record<string, string>>;
}

/** How a team's part of the GPUs is shown. */
export interface TeamPart {
  team: string;
  colour: string;
  gpus: number;
}

/** What stands in place of a team where nobody holds a GPU. */
export const IDLE = "";
/** The same where nothing may start. */
export const OUT = "out of service";

/** Whose a GPU is: the holder with the largest share. */
export function teamOf(node: Pick<NodeLike, "state">, gpu: GpuLike): string {
  const largest = gpu.holders.reduce<HolderLike | null>((most, one) => (most === null || one.share > most.share ? one : most), null);
  return largest?.team ?? (node.state === "ready" ? IDLE : OUT);
}

/** How many GPUs each team holds, the largest first; colours of teams that hold any differ. */
export function partsOf(nodes: readonly NodeLike[]): { teams: TeamPart[]; idle: number; out: number } {
  const held = new Map<string, number>();
  let idle = 0;
  let out = 0;
  for (const node of nodes) {
    for (const gpu of node.gpus) {
      gpu.holders.forEach((one) => held.set(one.team, (held.get(one.team) ?? 0) + one.share));
      if (node.state === "ready") {
        idle += gpu.free;
      } else if (gpu.holders.length === 0) {
        out += 1;
      }
    }
  }
  const colours = coloursOf([...held.keys()].toSorted());
  const teams = [...held].map(([team, gpus]) => ({ team, gpus, colour: colours.get(team) ?? "#888888" })).toSorted((a, b) => b.gpus - a.gpus || (a.team < b.team ? -1 : 1));
  return { teams, idle, out };
}

/** Nodes that match what was typed (name, state, GPU type, label, holder), g2 before g10. */
export function chosenNodes<T extends NodeLike>(nodes: readonly T[], text: string): T[] {
  const byName = new Map(nodes.map((node) => [node.node_id, node]));
  const wanted = matcher(text);
  const words = (node: T): string =>
    [
      node.node_id,
      node.state,
      node.health,
      node.note,
      ...node.gpus.flatMap((gpu) => [gpu.type, ...gpu.holders.flatMap((one) => [one.team, one.name, one.user])]),
      ...Object.entries(node.labels).map(([name, value]) => `${name}=${value}`),
    ].join(" ");
  return inOrder([...byName.keys()])
    .map((name) => byName.get(name))
    .filter((node): node is T => node !== undefined && (text.trim() === "" || wanted(words(node))));
}

/** What a GPU's cell says when it is pointed at. */
export function cellWords(node: NodeLike, gpu: GpuLike, busy: number | null): string {
  const whose =
    gpu.holders.length === 0
      ? node.state === "ready"
        ? "idle"
        : node.state
      : gpu.holders.map((one) => `${one.name === "" ? "a job" : one.name}${one.user === "" ? "" : ` of ${one.user}`}, team ${one.team}${one.share < 1 ? ` (${Math.round(one.share * 100)} %)` : ""}`).join("; ");
  return `${node.node_id} GPU ${gpu.index}: ${whose}${busy === null ? "" : `, ${Math.round(busy)} % busy`}`;
}
