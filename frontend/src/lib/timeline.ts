/** A run's life on one line of time: bars for what lasted, marks for what happened. Pure. */
import type { Tone } from "./states";

export interface Bar {
  from: number;
  to: number;
  tone: Tone;
  label: string;
}

export interface Mark {
  at: number;
  tone: Tone;
  label: string;
}

export interface Lane {
  name: string;
  bars: Bar[];
  marks: Mark[];
}

export interface Life {
  status: string;
  start: number | null;
  end: number | null;
  firstPoint: number | null;
  lastPoint: number | null;
}

interface EventLike {
  kind: string;
  time_ms: number;
  data: Record<string, unknown>;
}

const END_TONES: Record<string, Tone> = { FINISHED: "green", FAILED: "red", KILLED: "grey", RUNNING: "blue" };

/** The lanes of a run that was started by hand; the queue adds its own above them. */
export function lanesOf(life: Life, events: readonly EventLike[], now: number): Lane[] {
  const start = life.start ?? life.firstPoint ?? now;
  const end = life.end ?? (life.status === "RUNNING" ? now : (life.lastPoint ?? now));
  const tone = END_TONES[life.status] ?? "grey";
  const lanes: Lane[] = [{ name: "Run", bars: [{ from: start, to: Math.max(start, end), tone, label: "run" }], marks: [] }];
  if (life.firstPoint !== null && life.lastPoint !== null) {
    lanes.push({ name: "Metrics", bars: [{ from: life.firstPoint, to: life.lastPoint, tone: "violet", label: "points logged" }], marks: [] });
  }
  const within = (event: EventLike): boolean => event.time_ms >= start - 60_000 && event.time_ms <= end + 60_000;
  const files = events.filter((event) => event.kind.startsWith("artifact.") && within(event));
  if (files.length > 0) {
    lanes.push({ name: "Artifacts", bars: [], marks: files.map((event) => ({ at: event.time_ms, tone: "amber", label: `wrote ${String(event.data.path ?? "an artifact")}` })) });
  }
  const changes = events.filter((event) => event.kind.startsWith("run.") && event.kind !== "run.logged" && within(event));
  if (changes.length > 0) {
    lanes.push({ name: "Events", bars: [], marks: changes.map((event) => ({ at: event.time_ms, tone: "grey", label: event.kind.slice(4) })) });
  }
  return lanes;
}

/** The ends of a timeline, with a little room on either side. */
export function endsOf(lanes: readonly Lane[]): [number, number] {
  const times = lanes.flatMap((lane) => [...lane.bars.flatMap((bar) => [bar.from, bar.to]), ...lane.marks.map((mark) => mark.at)]);
  const low = Math.min(...times);
  const high = Math.max(...times);
  const room = Math.max(1000, (high - low) * 0.02);
  return times.length === 0 ? [0, 1] : [low - room, high + room];
}
