/** The `yard lease` lines, and leases in words. Pure: one place knows how they go. */
import { amountOfTime } from "./amounts";
import type { Draft, Verb } from "./calendar-rows";
import { formTime } from "./calendar-time";
import type { State } from "./states";
import { shell } from "./yard-line";

const line = (...words: string[]): string => ["yard", "lease", ...words].join(" ");
const time = (ms: number): string => shell(formTime(ms).replace("T", " "));
const nodes = (names: readonly string[]): string[] => names.flatMap((name) => ["--node", shell(name)]);
const given = (flag: string, value: string): string[] => (value === "" ? [] : [flag, shell(value)]);

export interface LeaseWish extends Draft {
  name: string;
  /** where no node is named: of which kind, and how many */
  type: string;
  where: string;
  count: number;
  purpose: string;
  before_end: string;
  personal: boolean;
}

export const leaseLine = {
  add: (wish: LeaseWish): string =>
    line(
      "add",
      shell(wish.name === "" ? "NAME" : wish.name),
      ...nodes(wish.nodes),
      ...given("--type", wish.type),
      ...given("--where", wish.where),
      ...(wish.nodes.length === 0 && wish.count > 1 ? ["--count", String(wish.count)] : []),
      "--start",
      time(wish.starts_ms),
      "--for",
      amountOfTime((wish.ends_ms - wish.starts_ms) / 1000),
      ...given("--purpose", wish.purpose),
      ...(wish.before_end === "notify" ? ["--before-end", "notify"] : []),
      ...(wish.personal ? ["--personal"] : []),
    ),
  change: (name: string, verb: Verb, before: Draft, after: Draft): string => {
    if (verb === "extend") {
      return line("extend", shell(name), "--end", time(after.ends_ms));
    }
    if (verb === "shrink") {
      const gone = before.nodes.filter((node) => !after.nodes.includes(node));
      return line("shrink", shell(name), ...nodes(gone), ...(after.ends_ms < before.ends_ms ? ["--end", time(after.ends_ms)] : []));
    }
    const moved = after.starts_ms !== before.starts_ms;
    const sameLength = after.ends_ms - after.starts_ms === before.ends_ms - before.starts_ms;
    const others = after.nodes.length !== before.nodes.length || after.nodes.some((node) => !before.nodes.includes(node));
    return line("move", shell(name), ...(moved ? ["--start", time(after.starts_ms)] : []), ...(sameLength ? [] : ["--end", time(after.ends_ms)]), ...(others ? nodes(after.nodes) : []));
  },
  release: (name: string): string => line("release", shell(name)),
  recall: (name: string): string => line("recall", shell(name)),
  transfer: (name: string, user: string): string => line("transfer", shell(name), shell(user === "" ? "USER" : user)),
  show: (name: string): string => line("show", shell(name)),
  calendar: (days: number): string => line("calendar", "--days", String(days)),
  list: (): string => line("ls", "--mine"),
  feed: (): string => line("feed"),
};

const STATES: Record<string, State> = {
  pending: { word: "pending", icon: "clock", tone: "amber" },
  starting: { word: "starting", icon: "dots", tone: "blue" },
  active: { word: "active", icon: "ring", tone: "blue" },
  updating: { word: "updating", icon: "dots", tone: "blue" },
  terminating: { word: "terminating", icon: "pause", tone: "violet" },
  terminated: { word: "terminated", icon: "square", tone: "grey" },
  error: { word: "error", icon: "cross", tone: "red" },
  deleted: { word: "deleted", icon: "square", tone: "grey" },
};

/** The state of a lease as word, icon and tone. */
export function leaseState(state: string): State {
  return STATES[state] ?? { word: state, icon: "dots", tone: "grey" };
}

const EFFECTS: Record<string, { word: string; tone: string }> = {
  drained: { word: "is drained", tone: "amber" },
  waits: { word: "waits", tone: "amber" },
  ends_before: { word: "ends before", tone: "green" },
  blocks: { word: "is in the way", tone: "red" },
};

/** What a lease does to a job, in a word. */
export function effectOf(effect: string): { word: string; tone: string } {
  return EFFECTS[effect] ?? { word: effect, tone: "grey" };
}
