/** The cluster: nodes, GPUs with their holders, demand that cannot be met. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json } from "./client";
import type { components } from "./types.gen";

type Schemas = components["schemas"];
export type Cluster = Schemas["Cluster"];
export type Node = Schemas["NodeView"];
export type Gpu = Schemas["GpuView"];
export type Holder = Schemas["Holder"];
export type Demand = Cluster["demand"][number];

/** The cluster as it is now. */
export const clusterQuery = () =>
  queryOptions({
    queryKey: ["cluster", currentTeam()] as const,
    queryFn: ({ signal }) => json<Cluster>("/api/v1/cluster", { signal }),
  });

const path = (node: string): string => `/api/v1/nodes/${encodeURIComponent(node)}`;

export const drainNode = (node: string, note: string): Promise<Node> => json(`${path(node)}/drain`, { method: "POST", body: { note } });
export const undrainNode = (node: string): Promise<Node> => json(`${path(node)}/undrain`, { method: "POST", body: {} });
