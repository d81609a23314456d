/** What the files of a run show: images by key and step, tables, sounds, films, figures, texts. Pure. */
import { baseName, viewerOf } from "./files";

export interface LoggedImage {
  key: string;
  step: number;
  time: number;
  path: string;
  /** a small copy, where the client made one */
  small: string | null;
}

export interface Media {
  /** images logged with a key, by key, in order of step */
  images: Map<string, LoggedImage[]>;
  /** pictures and figures logged under a name of their own */
  pictures: string[];
  tables: string[];
  sounds: string[];
  films: string[];
  pages: string[];
  texts: string[];
}

/** `images/key+step+3+timestamp+17+uuid.png`, as mlflow.log_image names its files; older clients write % for + . */
const LOGGED = /^images\/(.+?)([+%])step\2(-?\d+)\2timestamp\2(\d+)\2[^+%/]+?(\2compressed)?\.(png|webp|jpe?g)$/;

/** Read such a name; null for any other file. */
export function readImageName(path: string): (Omit<LoggedImage, "small"> & { isSmall: boolean; name: string }) | null {
  const match = LOGGED.exec(path);
  if (match === null) {
    return null;
  }
  const [, key = "", , step, time, small] = match;
  return { key: key.replace(/[~#]/g, "/"), step: Number(step), time: Number(time), path, isSmall: small !== undefined, name: path.replace(/([+%]compressed)?\.\w+$/, "") };
}

/** Sort the files of a run into what they show. */
export function mediaOf(paths: readonly string[]): Media {
  const found: Media = { images: new Map(), pictures: [], tables: [], sounds: [], films: [], pages: [], texts: [] };
  const small = new Map<string, string>();
  const whole: NonNullable<ReturnType<typeof readImageName>>[] = [];
  for (const path of paths) {
    const image = readImageName(path);
    if (image !== null) {
      if (image.isSmall) {
        small.set(image.name, path);
      } else {
        whole.push(image);
      }
      continue;
    }
    const kind = viewerOf(path);
    if (kind === "image") {
      found.pictures.push(path);
    } else if (kind === "table" || kind === "parquet" || (kind === "json" && path.endsWith(".json"))) {
      found.tables.push(path);
    } else if (kind === "audio") {
      found.sounds.push(path);
    } else if (kind === "video") {
      found.films.push(path);
    } else if (kind === "html") {
      found.pages.push(path);
    } else if (kind === "markdown" || /\.(txt|log)$/.test(path)) {
      found.texts.push(path);
    }
  }
  for (const { key, step, time, path, name } of whole.toSorted((a, b) => a.step - b.step || a.time - b.time)) {
    found.images.set(key, [...(found.images.get(key) ?? []), { key, step, time, path, small: small.get(name) ?? null }]);
  }
  return found;
}

/** The images of a key at a step: those of the last step that is not beyond it. */
export function atStep(images: readonly LoggedImage[], step: number): LoggedImage[] {
  const reached = images.filter((image) => image.step <= step).at(-1)?.step;
  return images.filter((image) => image.step === reached);
}

/** Every step at which something was logged, in order. */
export function stepsOf(all: readonly Media[]): number[] {
  return [...new Set(all.flatMap((media) => [...media.images.values()].flat().map((image) => image.step)))].toSorted((a, b) => a - b);
}

/** A table as mlflow.log_table writes it ({"columns": …, "data": …}), or a list of records; null for other JSON. */
export function readTable(text: string): { head: string[]; rows: string[][] } | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const word = (cell: unknown): string => (cell === null || cell === undefined ? "" : typeof cell === "object" ? JSON.stringify(cell) : String(cell));
  if (Array.isArray(value) && value.length > 0 && value.every((row) => typeof row === "object" && row !== null && !Array.isArray(row))) {
    const records = value as Record<string, unknown>[];
    const head = [...new Set(records.flatMap((row) => Object.keys(row)))];
    return { head, rows: records.map((row) => head.map((key) => word(row[key]))) };
  }
  const { columns, data } = (typeof value === "object" && value !== null ? value : {}) as { columns?: unknown; data?: unknown };
  if (!Array.isArray(columns) || !Array.isArray(data) || !data.every(Array.isArray)) {
    return null;
  }
  return { head: columns.map(word), rows: (data as unknown[][]).map((row) => row.map(word)) };
}

/** The counts of a column of numbers in equal parts, for a small histogram; null where it holds no numbers. */
export function histogram(values: readonly string[], parts = 20): { from: number; to: number; counts: number[] } | null {
  const numbers = values.filter((value) => value !== "").map(Number);
  if (numbers.length < 2 || !numbers.every(Number.isFinite)) {
    return null;
  }
  const from = numbers.reduce((least, value) => Math.min(least, value), Infinity);
  const to = numbers.reduce((most, value) => Math.max(most, value), -Infinity);
  if (from === to) {
    return null;
  }
  const counts = Array.from({ length: parts }, () => 0);
  for (const value of numbers) {
    const at = Math.min(parts - 1, Math.floor(((value - from) / (to - from)) * parts));
    counts[at] = (counts[at] ?? 0) + 1;
  }
  return { from, to, counts };
}

/** The name of a file as a caption: without its folder where that says nothing. */
export const caption = (path: string): string => (path.startsWith("images/") ? baseName(path) : path);
