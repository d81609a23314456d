/** How busy nodes were, from the samples their jobs sent. Owns the key of what is cached of it. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json } from "./client";
import type { components } from "./types.gen";

export type LoadHistory = components["schemas"]["LoadHistory"];

/** The load between two times, in so many stretches. */
export const loadQuery = (since: number, until: number, points: number) =>
  queryOptions({
    queryKey: ["load", currentTeam(), since, until, points] as const,
    queryFn: ({ signal }) => json<LoadHistory>("/api/v1/cluster/load", { query: { since, until, points }, signal }),
    staleTime: 20_000,
  });
