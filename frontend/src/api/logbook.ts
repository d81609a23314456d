/** Logbooks, digests, notes and causes. Owns the keys of what is cached of them; knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json, link } from "./client";
import type { components } from "./types.gen";

type Schemas = components["schemas"];
export type Logbook = Schemas["Logbook"];
export type LogEntry = Schemas["LogbookEntry"];
export type LogLane = Schemas["TimelineLane"];
export type Digest = Schemas["ActivityDigest"];
export type WhyWorse = Schemas["WhyWorse"];

export interface NoteDraft {
  text: string;
  step?: number;
  at_ms?: number;
  pictures?: string[];
}

const bookPath = (run: string | null): string => (run === null ? "/api/v1/logbook" : `/api/v1/runs/${encodeURIComponent(run)}/logbook`);
const notesPath = (run: string | null): string =>
  run === null ? "/api/v1/logbook/notes" : `/api/v1/runs/${encodeURIComponent(run)}/notes`;

/** The logbook of a run, or of its lineage. */
export const runLogbookQuery = (run: string, lineage = false) =>
  queryOptions({
    queryKey: ["logbook", currentTeam(), run, lineage] as const,
    queryFn: ({ signal }) => json<Logbook>(bookPath(run), { query: { limit: 2000, lineage: lineage ? 1 : undefined }, signal }),
  });

/** What people noted on a run. */
export const runNotesQuery = (run: string) =>
  queryOptions({
    queryKey: ["logbook", currentTeam(), run, "notes"] as const,
    queryFn: async ({ signal }) => (await json<Logbook>(bookPath(run), { query: { kind: "note", limit: 200 }, signal })).entries,
    staleTime: 60_000,
  });

/** The logbook of the team: so many days up to now, or what stands before a page. */
export const teamLogbookQuery = (days: number, before: number | null = null) =>
  queryOptions({
    queryKey: ["logbook", currentTeam(), "team", days, before] as const,
    queryFn: ({ signal }) =>
      json<Logbook>(bookPath(null), {
        query: { limit: 2000, since_ms: Date.now() - days * 86_400_000, before: before ?? undefined },
        signal,
      }),
  });

/** The digest of a week or month; `period` is this, last, or its name. */
export const digestQuery = (unit: "week" | "month", period: string) =>
  queryOptions({
    queryKey: ["logbook", currentTeam(), "digest", unit, period] as const,
    queryFn: ({ signal }) => json<Digest>("/api/v1/logbook/digest", { query: { [unit]: period }, signal }),
  });

/** What else changed around a step. */
export const whyWorseQuery = (run: string, step: number, metric: string) =>
  queryOptions({
    queryKey: ["why-worse", currentTeam(), run, step, metric] as const,
    queryFn: ({ signal }) =>
      json<WhyWorse>(`/api/v1/runs/${encodeURIComponent(run)}/why-worse`, { query: { step, metric }, signal }),
  });

export const addNote = (run: string | null, note: NoteDraft): Promise<{ id: string }> =>
  json(notesPath(run), { method: "POST", body: note });
export const editNote = (run: string | null, id: string, note: NoteDraft): Promise<{ id: string }> =>
  json(`${notesPath(run)}/${id}`, { method: "PUT", body: note });
export const removeNote = (run: string | null, id: string): Promise<{ id: string }> =>
  json(`${notesPath(run)}/${id}`, { method: "DELETE" });

/** Where a logbook is had as a file. */
export const exportAddress = (run: string | null, format: "markdown" | "html", lineage = false): string =>
  link(bookPath(run), { format, limit: 5000, ...(lineage ? { lineage: 1 } : {}) });
