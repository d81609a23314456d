/** Plans for fine-tuning: what can be asked for, and the plans. */
import { queryOptions } from "@tanstack/react-query";

import type { PlanSet } from "../lib/plans";
import { currentTeam, json } from "./client";
import type { components } from "./types.gen";

export type PlanOptions = components["schemas"]["PlanOptions"];
export type PlanReply = Omit<components["schemas"]["PlanReply"], "plans" | "model"> & {
  plans: PlanSet;
  model: { name: string; params: number; layers: number; hidden: number; max_seq: number };
};

export const planOptionsQuery = () =>
  queryOptions({
    queryKey: ["plan-options"] as const,
    queryFn: ({ signal }) => json<PlanOptions>("/api/v1/plans/options", { signal }),
    staleTime: Infinity,
  });

export const planQuery = (body: Record<string, unknown> | null) =>
  queryOptions({
    queryKey: ["plan", currentTeam(), body] as const,
    queryFn: ({ signal }) => json<PlanReply>("/api/v1/plans", { method: "POST", body: body ?? {}, signal }),
    enabled: body !== null,
    staleTime: 60_000,
    retry: false,
  });
