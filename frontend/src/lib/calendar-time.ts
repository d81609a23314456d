/** Time on the calendar: windows, ticks, snapping, words with the zone's offset. Local time, daylight saving included. Pure. */

export const MINUTE = 60_000;
export const HOUR = 3_600_000;
export const DAY = 86_400_000;

export type Scale = "day" | "week" | "month";
export const SCALES: readonly (readonly [Scale, string])[] = [
  ["day", "Day"],
  ["week", "Week"],
  ["month", "30 days"],
];
const DAYS: Record<Scale, number> = { day: 1, week: 7, month: 30 };
/** Minutes that a drag moves by, and the length that a plain click takes. */
const STEPS: Record<Scale, number> = { day: 15, week: 60, month: 360 };
const LENGTHS: Record<Scale, number> = { day: HOUR, week: 4 * HOUR, month: DAY };

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

const two = (value: number): string => String(value).padStart(2, "0");

export interface Window {
  from: number;
  to: number;
}

/** The first moment of the local day that is some days away. */
export function midnight(ms: number, days = 0): number {
  const when = new Date(ms);
  return new Date(when.getFullYear(), when.getMonth(), when.getDate() + days).getTime();
}

/** The window of a scale that begins with a day. A day may have 23 or 25 hours. */
export function windowOf(scale: Scale, day: number): Window {
  const from = midnight(day);
  return { from, to: midnight(from, DAYS[scale]) };
}

/** The first day of the window before, or after. */
export function turned(scale: Scale, day: number, way: 1 | -1): number {
  return midnight(day, way * DAYS[scale]);
}

/** A day as an address has it. */
export function dayWord(ms: number): string {
  const when = new Date(ms);
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
}

/** Read such a word; null where it is none. */
export function readDay(text: string | undefined): number | null {
  const found = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text ?? "");
  if (found === null) {
    return null;
  }
  const [year, month, day] = found.slice(1).map(Number);
  const ms = new Date(year ?? 0, (month ?? 1) - 1, day ?? 1).getTime();
  return Number.isNaN(ms) ? null : ms;
}

/** Milliseconds that a drag moves by. */
export function stepOf(scale: Scale): number {
  return STEPS[scale] * MINUTE;
}

/** The length that a click without a drag takes. */
export function clickLength(scale: Scale): number {
  return LENGTHS[scale];
}

/** The nearest step, counted from local midnight, so that steps are whole hours in every zone. */
export function snap(ms: number, step: number): number {
  const start = midnight(ms);
  return start + Math.round((ms - start) / step) * step;
}

export interface Tick {
  at: number;
  word: string;
  isDay: boolean;
}

/** Lines of the calendar: hours of a day, days of a longer window. */
export function ticksOf(scale: Scale, { from, to }: Window, every = scale === "day" ? 2 : 1): Tick[] {
  const ticks: Tick[] = [];
  if (scale === "day") {
    for (let hour = 0; ; hour += every) {
      const start = new Date(from);
      const at = new Date(start.getFullYear(), start.getMonth(), start.getDate(), hour).getTime();
      if (at >= to) {
        return ticks;
      }
      ticks.push({ at, word: `${two(new Date(at).getHours())}:00`, isDay: hour === 0 });
    }
  }
  for (let day = 0; ; day += every) {
    const at = midnight(from, day);
    if (at >= to) {
      return ticks;
    }
    const when = new Date(at);
    const date = `${when.getDate()} ${MONTHS[when.getMonth()] ?? ""}`;
    ticks.push({ at, word: scale === "week" ? `${WEEKDAYS[when.getDay()] ?? ""} ${date}` : when.getDate() === 1 ? (MONTHS[when.getMonth()] ?? "") : String(when.getDate()), isDay: true });
  }
}

/** The offset of the reader's zone at a moment: +01:00. */
export function offsetAt(ms: number): string {
  const minutes = -new Date(ms).getTimezoneOffset();
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/** A moment to the minute: Sun 1 Mar 14:00. */
export function moment(ms: number): string {
  const when = new Date(ms);
  return `${WEEKDAYS[when.getDay()] ?? ""} ${when.getDate()} ${MONTHS[when.getMonth()] ?? ""} ${hourMinute(ms)}`;
}

/** The time of day to the minute. */
export function hourMinute(ms: number): string {
  const when = new Date(ms);
  return `${two(when.getHours())}:${two(when.getMinutes())}`;
}

/** A span with its offset: Sun 1 Mar 14:00 to 17:00 (+01:00); both offsets where they differ. */
export function span(from: number, to: number): string {
  const end = midnight(from) === midnight(to) ? hourMinute(to) : moment(to);
  const [first, last] = [offsetAt(from), offsetAt(to)];
  return first === last ? `${moment(from)} to ${end} (${first})` : `${moment(from)} (${first}) to ${end} (${last})`;
}

/** A moment as a form has it, and as `yard` reads it: 2026-03-01T14:00. */
export function formTime(ms: number): string {
  return `${dayWord(ms)}T${hourMinute(ms)}`;
}

/** Read a form's moment, in local time; null where it is none. */
export function readForm(text: string): number | null {
  const found = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})/.exec(text);
  if (found === null) {
    return null;
  }
  const [year, month, day, hour, minute] = found.slice(1).map(Number);
  const ms = new Date(year ?? 0, (month ?? 1) - 1, day, hour, minute).getTime();
  return Number.isNaN(ms) ? null : ms;
}

/** How long until something, in two units: 2h10, 41m; seconds near the end. */
export function countdown(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 600) {
    return `${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return `${minutes}m`;
  }
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h${two(minutes % 60)}` : `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** The zone of the reader, by name. */
export function zoneName(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}
