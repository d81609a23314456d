/** Artifacts of runs: listing, reading, their addresses. Knows no viewer. */
import { queryOptions } from "@tanstack/react-query";

import { binary, currentTeam, json, link, mlflow, text } from "./client";
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

/** Folders that are looked into, and files that are listed, when all of a run's files are wanted. */
const MOST_FOLDERS = 60;
const MOST_FILES = 3000;

/** The paths of all files of a run, folder by folder; cut where there are very many. Folders of models are left out. */
export const allFilesQuery = (run: string) =>
  queryOptions({
    queryKey: ["files", currentTeam(), run, "*"] as const,
    queryFn: async ({ signal }) => {
      const paths: string[] = [];
      const folders = [""];
      let looked = 0;
      while (folders.length > 0 && looked < MOST_FOLDERS && paths.length < MOST_FILES) {
        const path = folders.shift() ?? "";
        looked += 1;
        const { files = [] } = await mlflow<{ files?: FileInfo[] }>("artifacts/list", { query: { run_id: run, path: path === "" ? undefined : path }, signal });
        if (files.some((file) => file.path.endsWith("/MLmodel"))) {
          continue;
        }
        files.forEach((file) => (file.is_dir ? folders : paths).push(file.path));
      }
      return { paths: paths.slice(0, MOST_FILES), cut: folders.length > 0 || paths.length > MOST_FILES };
    },
    staleTime: 10_000,
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

/** Put a file among a run's artifacts. */
export const putFile = (artifactUri: string, path: string, file: Blob): Promise<unknown> =>
  json(filePath(artifactUri, path), { method: "PUT", raw: file });
