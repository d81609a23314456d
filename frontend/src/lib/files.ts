/** Artifact files: which viewer a file gets, and their paths. Pure. */

export type Viewer = "text" | "json" | "markdown" | "image" | "table" | "parquet" | "audio" | "video" | "html" | "pdf" | "none";

const BY_ENDING: Record<string, Viewer> = {};
const put = (viewer: Viewer, endings: string): void => {
  for (const ending of endings.split(" ")) {
    BY_ENDING[ending] = viewer;
  }
};
put("text", "txt log py ts js sh toml ini cfg conf yaml yml xml sql r jl c h cpp cu rs go java env lock diff patch out err mlmodel");
put("json", "json jsonl ndjson geojson ipynb");
put("markdown", "md markdown");
put("image", "png jpg jpeg gif webp svg bmp avif");
put("table", "csv tsv");
put("parquet", "parquet");
put("audio", "wav mp3 ogg flac");
put("video", "mp4 webm");
put("html", "html htm");
put("pdf", "pdf");

const PLAIN_NAMES = new Set(["mlmodel", "dockerfile", "makefile", "readme", "license", "requirements"]);

/** The viewer of a file, by its name. */
export function viewerOf(path: string): Viewer {
  const name = baseName(path).toLowerCase();
  if (PLAIN_NAMES.has(name)) {
    return "text";
  }
  const at = name.lastIndexOf(".");
  return at < 0 ? "none" : (BY_ENDING[name.slice(at + 1)] ?? "none");
}

/** The last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The folder of a path, empty for the root. */
export function folderName(path: string): string {
  const at = path.lastIndexOf("/");
  return at < 0 ? "" : path.slice(0, at);
}

/** Every folder above a path, from the root down. */
export function parents(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}

/** A path for an address: each part escaped, slashes kept. */
export function escapePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}
