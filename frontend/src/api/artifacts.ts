/** Artifacts of runs: listing, reading, their addresses. Knows no viewer. */
import { queryOptions } from "@tanstack/react-query";

import { binary, currentTeam, link, mlflow, text } from "./client";
import { escapePath } from "../lib/files";
import type { FileInfo } from "./wire";

/** Text that a viewer loads at most, in bytes. */
export const MOST_TEXT = 2_000_000;

/** The files and folders in a folder of a run, folders first. */
export const filesQuery = (run: string, path: string) =>
  queryOptions({
    queryKey: ["files", currentTeam(), run, path] as const,
    queryFn: async ({ signal }) => {
      const answer = await mlflow<{ files?: FileInfo[] }>("artifacts/list", {
        query: { run_id: run, path: path === "" ? undefined : path },
        signal,
      });
      const files = answer.files ?? [];
      return files.sort((a, b) => Number(b.is_dir) - Number(a.is_dir) || (a.path < b.path ? -1 : 1));
    },
  });

const PREVIEW = "/api/v1/artifacts/preview";

function filePath(artifactUri: string, path: string): string {
  const root = artifactUri.replace(/^mlflow-artifacts:\/+/, "");
  return `/api/2.0/mlflow-artifacts/artifacts/${escapePath(`${root}/${path}`)}`;
}

/** A file's text, cut at MOST_TEXT. */
export const textQuery = (artifactUri: string, path: string) =>
  queryOptions({
    queryKey: ["text", currentTeam(), artifactUri, path] as const,
    queryFn: () => text(filePath(artifactUri, path), {}, MOST_TEXT),
    staleTime: 30_000,
  });

/** A file's bytes. */
export const bytesQuery = (artifactUri: string, path: string) =>
  queryOptions({
    queryKey: ["bytes", currentTeam(), artifactUri, path] as const,
    queryFn: () => binary(filePath(artifactUri, path)),
    staleTime: 30_000,
  });

/** The address under which a tag shows a file, in the server's sandbox. */
export function previewAddress(run: string, path: string): string {
  return link(PREVIEW, { run_id: run, path });
}

/** The address under which a browser saves a file. */
export function downloadAddress(artifactUri: string, path: string): string {
  return link(filePath(artifactUri, path));
}
