/** Alerts: incidents, rules, channels, messages and one's own inbox. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json } from "./client";
import type { components } from "./types.gen";

type Schemas = components["schemas"];
export type Incident = Schemas["Incident"];
export type AlertRule = Schemas["RuleView"];
export type AlertChannel = Schemas["ChannelView"];
export type AlertMessage = Schemas["DeliveryView"];
export type Inbox = Schemas["InboxView"];

const fresh = 30_000;

/** Incidents of the team, or of one job or run. */
export const incidentsQuery = (wish: { state?: string; job?: string; run?: string } = {}) =>
  queryOptions({
    queryKey: ["alerts", currentTeam(), "incidents", wish] as const,
    queryFn: async ({ signal }) =>
      (await json<Schemas["IncidentList"]>("/api/v1/incidents", { query: wish, signal })).incidents,
    refetchInterval: fresh,
  });

export const rulesQuery = () =>
  queryOptions({
    queryKey: ["alerts", currentTeam(), "rules"] as const,
    queryFn: ({ signal }) => json<Schemas["RuleList"]>("/api/v1/alerts", { signal }),
  });

export const channelsQuery = () =>
  queryOptions({
    queryKey: ["alerts", currentTeam(), "channels"] as const,
    queryFn: async ({ signal }) =>
      (await json<Schemas["ChannelList"]>("/api/v1/alert-channels", { signal })).channels,
  });

export const messagesQuery = () =>
  queryOptions({
    queryKey: ["alerts", currentTeam(), "messages"] as const,
    queryFn: async ({ signal }) =>
      (await json<Schemas["DeliveryList"]>("/api/v1/alert-deliveries", { signal })).deliveries,
    refetchInterval: fresh,
  });

export const inboxQuery = () =>
  queryOptions({
    queryKey: ["inbox", currentTeam()] as const,
    queryFn: ({ signal }) => json<Inbox>("/api/v1/inbox", { signal }),
    refetchInterval: fresh,
  });

export const addRule = (text: string, scope = ""): Promise<AlertRule> =>
  json("/api/v1/alerts", { method: "POST", body: { text, scope } });
export const removeRule = (id: string): Promise<unknown> =>
  json(`/api/v1/alerts/${encodeURIComponent(id)}`, { method: "DELETE" });
export const acknowledge = (id: number): Promise<Incident> =>
  json(`/api/v1/incidents/${id}/acknowledge`, { method: "POST", body: {} });
export const silence = (wish: { rule_id?: string; subject_id?: string; seconds: number }): Promise<unknown> =>
  json("/api/v1/silences", { method: "POST", body: wish });
export const testChannel = (name: string): Promise<Schemas["TestReply"]> =>
  json(`/api/v1/alert-channels/${encodeURIComponent(name)}/test`, { method: "POST", body: {} });
export const addChannel = (wish: { name: string; kind: string; target: string }): Promise<AlertChannel> =>
  json("/api/v1/alert-channels", { method: "POST", body: wish });
export const removeChannel = (name: string): Promise<unknown> =>
  json(`/api/v1/alert-channels/${encodeURIComponent(name)}`, { method: "DELETE" });
export const readInbox = (upTo: number): Promise<Inbox> =>
  json("/api/v1/inbox/read", { method: "POST", body: { up_to: upTo } });
