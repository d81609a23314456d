/** The cluster: nodes, GPUs with their holders, demand that cannot be met. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json } from "./client";
import type { components } from "./types.gen";

type Schemas = components["schemas"];
export type Cluster = Schemas["FleetView"];
export type Node = Schemas["NodeView"];
export type Gpu = Schemas["GpuView"];
export type Holder = Schemas["GpuHolder"];
export type Check = Schemas["CheckView"];
export type VerdictList = Schemas["VerdictList"];
export type Demand = Cluster["demand"][number];

/** The cluster as it is now. */
export const clusterQuery = () =>
  queryOptions({
    queryKey: ["cluster", currentTeam()] as const,
    queryFn: ({ signal }) => json<Cluster>("/api/v1/cluster", { signal }),
  });

/** What health checks found of a node, newest first. */
export const verdictsQuery = (node: string) =>
  queryOptions({
    queryKey: ["verdicts", node] as const,
    queryFn: ({ signal }) => json<VerdictList>(`${path(node)}/verdicts?limit=30`, { signal }),
    refetchInterval: 15_000,
  });

const path = (node: string): string => `/api/v1/nodes/${encodeURIComponent(node)}`;

export const drainNode = (node: string, note: string): Promise<Node> => json(`${path(node)}/drain`, { method: "POST", body: { note } });
export const quarantineNode = (node: string, why: string): Promise<Node> => json(`${path(node)}/quarantine`, { method: "POST", body: { why } });
export const undrainNode = (node: string): Promise<Node> => json(`${path(node)}/undrain`, { method: "POST", body: {} });
