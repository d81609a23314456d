/** Numbers, sizes, durations and times as people read them. Pure; knows no page. */

const DASH = "—";

/** A number with three significant digits, as tables show it. */
export function short(value: number | string | null | undefined): string {
  if (value === null || value === undefined || value === "") {
    return DASH;
  }
  const number = typeof value === "number" ? value : Number(value);
  if (Number.isNaN(number)) {
    return typeof value === "string" ? value : "NaN";
  }
  return shortNumber(number);
}

function shortNumber(number: number): string {
  if (number === 0) {
    return "0";
  }
  if (!Number.isFinite(number)) {
    return number > 0 ? "∞" : "-∞";
  }
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1e6) {
    return grouped(number);
  }
  if (size >= 1e6 || size < 1e-4) {
    return number.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  }
  if (size >= 1000) {
    return grouped(Math.round(number));
  }
  return trimmed(number.toPrecision(3));
}

function trimmed(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A whole number with thin groups of three. */
export function grouped(value: number): string {
  // By hand: the browser's own formatter takes tens of milliseconds to set up on the first page.
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** The whole value, for hover and copy. */
export function full(value: number | string | null | undefined): string {
  return value === null || value === undefined ? DASH : String(value);
}

/** A size in bytes: 1.4 MB. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) {
    return DASH;
  }
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : trimmed(size.toPrecision(3))} ${units[unit] ?? ""}`;
}

/** A span of time in two units at most: 2h10, 41m, 3.2s. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) {
    return DASH;
  }
  const span = Math.max(0, ms);
  if (span === 0) {
    return "0s";
  }
  if (span < 1000) {
    return `${Math.round(span)}ms`;
  }
  const seconds = span / 1000;
  if (seconds < 60) {
    return `${seconds < 10 ? trimmed(seconds.toFixed(1)) : Math.round(seconds)}s`;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    const rest = Math.floor(seconds % 60);
    return minutes < 10 && rest > 0 ? `${minutes}m${two(rest)}` : `${minutes}m`;
  }
  const hours = Math.floor(minutes / 60);
  if (hours < 48) {
    return `${hours}h${two(minutes % 60)}`;
  }
  return `${Math.floor(hours / 24)}d${hours % 24 > 0 ? ` ${hours % 24}h` : ""}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** How long ago: 12s ago, 3h ago, 2 Nov. */
export function ago(ms: number | null | undefined, now: number): string {
  if (ms === null || ms === undefined) {
    return DASH;
  }
  const span = now - ms;
  if (span < 0) {
    return "just now";
  }
  if (span < 10_000) {
    return "just now";
  }
  if (span < 60_000) {
    return `${Math.floor(span / 1000)}s ago`;
  }
  if (span < 3_600_000) {
    return `${Math.floor(span / 60_000)}m ago`;
  }
  if (span < 86_400_000) {
    return `${Math.floor(span / 3_600_000)}h ago`;
  }
  if (span < 14 * 86_400_000) {
    return `${Math.floor(span / 86_400_000)}d ago`;
  }
  return day(ms, now);
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function day(ms: number, now: number): string {
  const when = new Date(ms);
  const text = `${when.getDate()} ${MONTHS[when.getMonth()] ?? ""}`;
  return when.getFullYear() === new Date(now).getFullYear() ? text : `${text} ${when.getFullYear()}`;
}

/** The exact local time, for hover: 2026-08-17 14:20:05. */
export function exact(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) {
    return DASH;
  }
  const when = new Date(ms);
  const date = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  return `${date} ${clock(ms)}`;
}

/** The local time of day with seconds. */
export function clock(ms: number): string {
  const when = new Date(ms);
  return `${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}`;
}

/** One thing, many things: 1 run, 2 runs. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${grouped(number)} ${number === 1 ? one : many}`;
}

/** A difference with its sign: +0.012, −3. */
export function signed(value: number): string {
  if (value === 0 || Number.isNaN(value)) {
    return "0";
  }
  return value > 0 ? `+${short(value)}` : `−${short(-value)}`;
}
