/** What befell a lease, as word, icon and tone. Pure. */
import type { EventLike } from "./event-words";
import type { Tone } from "./states";

export interface Turn {
  word: string;
  icon: "plus" | "dots" | "ring" | "edit" | "right" | "user" | "clock" | "pause" | "square" | "trash" | "warn" | "arrows" | "tick" | "cross" | "out" | "restore";
  tone: Tone;
}

const TURNS: Record<string, Turn> = {
  "lease.created": { word: "promised", icon: "plus", tone: "grey" },
  "lease.starting": { word: "starting", icon: "dots", tone: "blue" },
  "lease.started": { word: "active", icon: "ring", tone: "blue" },
  "lease.changed": { word: "changed", icon: "edit", tone: "grey" },
  "lease.extended": { word: "extended", icon: "right", tone: "grey" },
  "lease.transferred": { word: "handed over", icon: "user", tone: "grey" },
  "lease.ending": { word: "ends soon", icon: "clock", tone: "amber" },
  "lease.terminating": { word: "draining", icon: "pause", tone: "violet" },
  "lease.ended": { word: "ended", icon: "square", tone: "grey" },
  "lease.deleted": { word: "given back", icon: "trash", tone: "grey" },
  "lease.degraded": { word: "degraded", icon: "warn", tone: "red" },
  "lease.replaced": { word: "node replaced", icon: "arrows", tone: "amber" },
  "lease.restored": { word: "node back", icon: "tick", tone: "green" },
  "lease.failed": { word: "failed", icon: "cross", tone: "red" },
  "lease.idle": { word: "idle", icon: "pause", tone: "amber" },
  "lease.lent": { word: "lent", icon: "out", tone: "violet" },
  "lease.recalled": { word: "called back", icon: "restore", tone: "blue" },
  "lease.crossed": { word: "crossed", icon: "warn", tone: "red" },
  "lease.shaken": { word: "hold shaken", icon: "warn", tone: "amber" },
  "lease.flagged": { word: "flagged", icon: "warn", tone: "amber" },
};

const TROUBLES = new Set(["lease.degraded", "lease.failed", "lease.crossed", "lease.shaken"]);

/** An event of a lease as word, icon and tone. */
export function turnOf(kind: string): Turn {
  return TURNS[kind] ?? { word: kind.replace(/^lease\./, "").replace(/_/g, " "), icon: "dots", tone: "grey" };
}

/** How often what a lease promises was in danger: a node failed, its hold was shaken, someone else's job was on it. */
export function troublesIn(events: readonly Pick<EventLike, "kind">[]): number {
  return events.filter((event) => TROUBLES.has(event.kind)).length;
}
