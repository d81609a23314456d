/** Zip archives, stored without compression: a folder of code as one file. Pure. */

export interface ZipEntry {
  /** with slashes, relative to the archive */
  path: string;
  data: Uint8Array<ArrayBuffer>;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, at) => {
  let value = at;
  for (let bit = 0; bit < 8; bit += 1) {
    value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  }
  return value >>> 0;
});

export function crc32(data: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of data) {
    value = (value >>> 8) ^ (TABLE[(value ^ byte) & 255] ?? 0);
  }
  return (value ^ 0xffffffff) >>> 0;
}

/** 1 January 1980: the same folder always makes the same archive. */
const DATE = 0x21;
const UTF8 = 0x0800;

/** Put files into an archive, in order of their paths. */
export function zip(entries: readonly ZipEntry[]): Blob {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const directory: Uint8Array<ArrayBuffer>[] = [];
  let offset = 0;
  const sorted = [...entries].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  for (const { path, data } of sorted) {
    const name = new TextEncoder().encode(path);
    // Version, flags, method, time, date, sum, both sizes, lengths of name and extra field.
    const shared = words([20, UTF8, 0, 0, DATE], [crc32(data), data.length, data.length], [name.length, 0]);
    const head = joined([words([], [0x04034b50]), shared, name]);
    const rest = words([0, 0, 0], [0, offset]);
    directory.push(joined([words([], [0x02014b50]), words([20]), shared, rest, name]));
    parts.push(head, data);
    offset += head.length + data.length;
  }
  const size = directory.reduce((sum, one) => sum + one.length, 0);
  const end = joined([words([], [0x06054b50]), words([0, 0, sorted.length, sorted.length], [size, offset], [0])]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}

/** Little-endian numbers: of two bytes, of four, of two. */
function words(first: readonly number[], long: readonly number[] = [], last: readonly number[] = []): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(first.length * 2 + long.length * 4 + last.length * 2));
  first.forEach((value, at) => view.setUint16(at * 2, value, true));
  long.forEach((value, at) => view.setUint32(first.length * 2 + at * 4, value, true));
  last.forEach((value, at) => view.setUint16(first.length * 2 + long.length * 4 + at * 2, value, true));
  return new Uint8Array(view.buffer);
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Folders that are never part of a package: history, environments, caches. */
const LEFT_OUT = new Set([".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", "mlruns", "wandb"]);

/** Whether a file belongs into a package. */
export const isCode = (path: string): boolean => !path.split("/").some((part) => LEFT_OUT.has(part)) && !path.endsWith(".pyc") && !path.endsWith("/.DS_Store");

/** The most that a package may weigh. */
export const MAX_PACKAGE_BYTES = 100 * 1024 ** 2;
