/** Reports: the team's pages of Markdown about runs. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json } from "./client";
import type { components } from "./types.gen";

export type Report = components["schemas"]["Report"];
export type ReportSummary = components["schemas"]["ReportSummary"];

const PATH = "/api/v1/reports";
const at = (id: string): string => `${PATH}/${encodeURIComponent(id)}`;

export const reportsKey = () => ["reports", currentTeam()] as const;

/** The reports of the team, the one changed last first. */
export const reportsQuery = () =>
  queryOptions({
    queryKey: reportsKey(),
    queryFn: async ({ signal }) => (await json<components["schemas"]["ReportList"]>(PATH, { signal })).reports,
  });

/** One report with its text. */
export const reportQuery = (id: string) =>
  queryOptions({
    queryKey: [...reportsKey(), id] as const,
    queryFn: ({ signal }) => json<Report>(at(id), { signal }),
  });

export const createReport = (title: string, text: string): Promise<Report> => json(PATH, { method: "POST", body: { title, text } });
export const saveReport = (id: string, title: string, text: string, version: number): Promise<Report> =>
  json(at(id), { method: "PUT", body: { title, text, version } });
export const deleteReport = (id: string): Promise<unknown> => json(at(id), { method: "DELETE" });
