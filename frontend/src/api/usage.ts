/** Usage, budgets and the fleet over time. Owns the keys of what is cached of them. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json, link } from "./client";
import type { components } from "./types.gen";

type Schemas = components["schemas"];
export type UsageReport = Schemas["UsageReport"];
export type UsageGroup = Schemas["UsageGroup"];
export type Budget = Schemas["BudgetView"];
export type FleetHistory = Schemas["FleetHistory"];
export type QueueClass = Schemas["QueueClass"];

/** What a month's usage is asked for by. */
export interface UsageWish {
  month: string;
  by: string;
}

export const usageQuery = (wish: UsageWish) =>
  queryOptions({
    queryKey: ["usage", currentTeam(), wish.month, wish.by] as const,
    queryFn: ({ signal }) => json<UsageReport>("/api/v1/usage", { query: { ...wish }, signal }),
    staleTime: 20_000,
  });

export const budgetsQuery = () =>
  queryOptions({
    queryKey: ["budgets", currentTeam()] as const,
    queryFn: ({ signal }) => json<Schemas["BudgetList"]>("/api/v1/budgets", { signal }),
  });

export const closedMonthsQuery = () =>
  queryOptions({
    queryKey: ["closed-months", currentTeam()] as const,
    queryFn: ({ signal }) => json<Schemas["MonthList"]>("/api/v1/usage/months", { signal }),
  });

export const fleetQuery = (days: number, points: number) =>
  queryOptions({
    queryKey: ["fleet-history", currentTeam(), days, points] as const,
    queryFn: ({ signal }) => {
      const since = Date.now() - days * 86_400_000;
      return json<FleetHistory>("/api/v1/fleet/history", { query: { since, points }, signal });
    },
    staleTime: 20_000,
    refetchInterval: 60_000,
  });

export const closeMonth = (month: string): Promise<unknown> =>
  json(`/api/v1/usage/months/${encodeURIComponent(month)}/close`, { method: "POST", body: {} });

/** Where a month's usage can be fetched as CSV. */
export const csvLink = (wish: UsageWish): string => link("/api/v1/usage", { ...wish, format: "csv" });
