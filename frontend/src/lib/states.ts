/** The states of a run in words, each with its icon and tone. Pure. */

export type Tone = "amber" | "blue" | "violet" | "green" | "red" | "grey";

export interface State {
  word: string;
  icon: "clock" | "ring" | "dots" | "pause" | "tick" | "cross" | "square" | "arrows";
  tone: Tone;
}

const STATES: Record<string, State> = {
  RUNNING: { word: "running", icon: "ring", tone: "blue" },
  SCHEDULED: { word: "queued", icon: "clock", tone: "amber" },
  STARTING: { word: "starting", icon: "dots", tone: "blue" },
  SILENT: { word: "no data", icon: "pause", tone: "violet" },
  STALLED: { word: "stalled", icon: "pause", tone: "violet" },
  FINISHED: { word: "succeeded", icon: "tick", tone: "green" },
  FAILED: { word: "failed", icon: "cross", tone: "red" },
  KILLED: { word: "stopped", icon: "square", tone: "grey" },
  PREEMPTED: { word: "preempted", icon: "arrows", tone: "amber" },
  READY: { word: "ready", icon: "tick", tone: "green" },
  PENDING_REGISTRATION: { word: "registering", icon: "dots", tone: "blue" },
  FAILED_REGISTRATION: { word: "failed", icon: "cross", tone: "red" },
};

/** The state behind a status as the server spells it. */
export function stateOf(status: string): State {
  return STATES[status] ?? { word: status.toLowerCase(), icon: "square", tone: "grey" };
}

/** Milliseconds without a point after which a run that says it runs is not believed. */
export const SILENCE = 30 * 60_000;

/** The status to show: a run that was not heard of for a while says so. */
export function shownStatus(status: string, heard: number | null | undefined, now: number): string {
  return status === "RUNNING" && typeof heard === "number" && now - heard > SILENCE ? "SILENT" : status;
}

/** Whether a run is still going. */
export function isLive(status: string): boolean {
  return status === "RUNNING" || status === "SCHEDULED" || status === "STARTING";
}
