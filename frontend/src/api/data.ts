/** Data sets and their versions: reading them. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { binary, currentTeam, json, link } from "./client";
import type { components } from "./types.gen";

export type DataVersion = components["schemas"]["VersionView"];
export type DataSummary = components["schemas"]["DataSummary"];
export type DataFile = components["schemas"]["FileView"];
export type DataDiff = components["schemas"]["DiffReply"];
export type DataLook = components["schemas"]["LookReply"];

const DATA = "/api/v1/data";
const one = (name: string, version: number): string => `${DATA}/${encodeURIComponent(name)}/versions/v${version}`;

/** All data sets, by name. */
export const dataQuery = () =>
  queryOptions({
    queryKey: ["data", currentTeam()] as const,
    queryFn: async ({ signal }) => {
      const found: DataSummary[] = [];
      let after = "";
      do {
        const page = await json<components["schemas"]["DataList"]>(DATA, { query: { after, limit: 1000 }, signal });
        found.push(...page.data);
        after = page.next;
      } while (after !== "" && found.length < 5000);
      return found;
    },
  });

/** One data set with its versions, the newest first. */
export const dataSetQuery = (name: string) =>
  queryOptions({
    queryKey: ["data-set", currentTeam(), name] as const,
    queryFn: ({ signal }) => json<components["schemas"]["DataDetail"]>(`${DATA}/${encodeURIComponent(name)}`, { signal }),
  });

/** Files of a version to look at: evenly from all classes, or of one. */
export const samplesQuery = (name: string, version: number, ofClass: string) =>
  queryOptions({
    queryKey: ["data-samples", currentTeam(), name, version, ofClass] as const,
    queryFn: async ({ signal }) => {
      const query = { of_class: ofClass, limit: 60 };
      const path = `${one(name, version)}/samples`;
      return (await json<components["schemas"]["FilesReply"]>(path, { query, signal })).files;
    },
    staleTime: Infinity,
  });

/** The beginning of a table or text. */
export const lookQuery = (name: string, version: number, path: string) =>
  queryOptions({
    queryKey: ["data-look", currentTeam(), name, version, path] as const,
    queryFn: ({ signal }) => json<DataLook>(`${one(name, version)}/preview`, { query: { path }, signal }),
    staleTime: Infinity,
  });

/** All bytes of a file. */
export const fileQuery = (name: string, version: number, path: string) =>
  queryOptions({
    queryKey: ["data-file", currentTeam(), name, version, path] as const,
    queryFn: () => binary(`${one(name, version)}/file`, { path }),
    staleTime: Infinity,
  });

/** How a version differs from another. */
export const diffQuery = (name: string, old: number, now: number) =>
  queryOptions({
    queryKey: ["data-diff", currentTeam(), name, old, now] as const,
    queryFn: ({ signal }) => {
      const query = { old: `v${old}`, new: `v${now}` };
      return json<DataDiff>(`${DATA}/${encodeURIComponent(name)}/diff`, { query, signal });
    },
    staleTime: Infinity,
  });

/** Who used a version, and which nodes hold it. */
export const usersQuery = (name: string, version: number) =>
  queryOptions({
    queryKey: ["data-users", currentTeam(), name, version] as const,
    queryFn: ({ signal }) => json<components["schemas"]["UsersReply"]>(`${one(name, version)}/users`, { signal }),
  });

/** The address of a file's bytes. */
export const fileAddress = (name: string, version: number, path: string): string =>
  link(`${one(name, version)}/file`, { path });
