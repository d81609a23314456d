/** A logbook as the page shows it: days, tones, filter, lanes. Pure. */
import type { JobLane } from "./job-lanes";
import type { Tone } from "./states";
import type { IconName } from "../ui/icon";

export interface EntryLike {
  id: string;
  time_ms: number;
  kind: string;
  sentence: string;
  detail?: string;
  actor?: string;
  run_name?: string;
  metric?: string;
  differences?: readonly { name: string; before: string; after: string }[];
}

interface SpanLike {
  from_ms: number;
  to_ms: number;
  label: string;
  tone: string;
}

export const KINDS: readonly (readonly [string, string])[] = [
  ["attempt", "Attempts"],
  ["job", "Jobs"],
  ["run", "Runs"],
  ["curve", "Curves"],
  ["note", "Notes"],
  ["config", "Changes"],
  ["checkpoint", "Checkpoints"],
  ["alert", "Alerts"],
  ["node", "Nodes"],
  ["lease", "Leases"],
  ["model", "Models"],
];

const TONES: Record<string, Tone> = { good: "green", bad: "red", warn: "amber", busy: "blue", plain: "grey" };

/** The colour of an entry or span. */
export const toneOf = (tone: string): Tone => TONES[tone] ?? "grey";

const ICONS: Record<string, IconName> = {
  attempt: "play",
  job: "queue",
  run: "runs",
  curve: "sliders",
  note: "edit",
  config: "compare",
  checkpoint: "save",
  alert: "warn",
  node: "nodes",
  lease: "calendar",
  model: "models",
};

/** The sign of a kind of entry. */
export const iconOf = (kind: string): IconName => ICONS[kind] ?? "log";

/** The entries of some kinds that hold every word. */
export function chosen<T extends EntryLike>(entries: readonly T[], kinds: readonly string[], query: string): T[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return entries.filter((entry) => {
    if (kinds.length > 0 && !kinds.includes(entry.kind)) {
      return false;
    }
    const changes = (entry.differences ?? []).map((one) => `${one.name} ${one.before} ${one.after}`);
    const parts = [entry.sentence, entry.detail ?? "", entry.actor ?? "", entry.run_name ?? "", entry.metric ?? "", ...changes];
    const text = parts.join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

const dayName = (ms: number): string =>
  new Date(ms).toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });

/** The entries by day, the latest first. */
export function byDay<T extends EntryLike>(entries: readonly T[]): { day: string; entries: T[] }[] {
  const days: { day: string; entries: T[] }[] = [];
  for (const entry of entries.toReversed()) {
    const day = dayName(entry.time_ms);
    const last = days.at(-1);
    if (last?.day === day) {
      last.entries.push(entry);
    } else {
      days.push({ day, entries: [entry] });
    }
  }
  return days;
}

/** The server's lanes as the timeline draws them: what lasts is a bar, a moment is a mark. */
export function lanesFrom(lanes: readonly { name: string; spans: readonly SpanLike[] }[]): JobLane[] {
  return lanes.map(({ name, spans }) => ({
    name,
    bars: spans
      .filter((span) => span.to_ms > span.from_ms)
      .map((span) => ({
        from: span.from_ms,
        to: span.to_ms,
        tone: toneOf(span.tone),
        label: span.label,
        word: name === "Running" || name === "Leases" || name === "Lost" ? span.label : "",
        sign: null,
        pattern: name === "Waiting" || name === "Lost" ? ("wait" as const) : ("plain" as const),
      })),
    marks: spans
      .filter((span) => span.to_ms <= span.from_ms)
      .map((span) => ({ at: span.from_ms, tone: toneOf(span.tone), label: span.label })),
  }));
}

/** The ends of lanes, but for leases, which may last much longer than a run. */
export function endsOfLanes(lanes: readonly JobLane[], now: number): [number, number] {
  const own = lanes.filter((lane) => lane.name !== "Leases");
  const times = own.flatMap((lane) => [...lane.bars.flatMap((bar) => [bar.from, bar.to]), ...lane.marks.map((mark) => mark.at)]);
  if (times.length === 0) {
    return [now - 60_000, now];
  }
  const low = times.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY);
  const high = times.reduce((most, time) => Math.max(most, time), Number.NEGATIVE_INFINITY);
  const room = Math.max(1000, (high - low) * 0.015);
  return [low - room, high + room];
}

/** The attempt that ran, or began, at a moment; the last one before it else. */
export function attemptAt(attempts: readonly { number: number; admitted_ms: number; ended_ms: number | null }[], at: number): number | null {
  const began = attempts.filter((attempt) => attempt.admitted_ms <= at);
  return began.at(-1)?.number ?? attempts[0]?.number ?? null;
}
