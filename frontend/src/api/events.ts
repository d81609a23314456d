/** The event log, page by page. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json } from "./client";
import type { components } from "./types.gen";

export type YardEvent = components["schemas"]["EventOut"];

export interface EventWish {
  limit?: number;
  kind?: string | undefined;
  subject?: string | undefined;
  subject_id?: string | undefined;
}

/** The latest events. */
export const eventsQuery = (wish: EventWish = {}) =>
  queryOptions({
    queryKey: ["events", currentTeam(), wish] as const,
    queryFn: async ({ signal }) =>
      (
        await json<components["schemas"]["EventPage"]>("/api/v1/events", {
          query: { limit: 100, order: "newest", ...wish },
          signal,
        })
      ).events,
  });
