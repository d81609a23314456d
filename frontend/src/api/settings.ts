/** People, credentials, teams and queues: what admins and owners set. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json } from "./client";
import type { YardEvent } from "./events";
import type { components } from "./types.gen";

type Schemas = components["schemas"];
export type QueueView = Schemas["QueueView"];
/** Rules as the server says them: what has its default is left out. */
export type QueueRules = Partial<Schemas["QueueSettings"]>;
export type Share = Schemas["ShareView"];
export type TeamShare = Schemas["TeamShare"];
export type TeamPromises = Schemas["TeamPromises"];

export interface Token {
  id: string;
  user: string;
  team: string;
  role: string;
  label: string;
  created_ms: number;
  expires_ms: number | null;
  used_ms: number | null;
  revoked_ms: number | null;
}

export interface MadeToken {
  id: string;
  token: string;
  team: string;
  user: string;
  role: string;
  expires_ms: number | null;
}

export interface Member {
  user: string;
  role: string;
  is_admin: boolean;
}

export interface Person {
  name: string;
  is_admin: boolean;
  created_ms: number;
  disabled: boolean;
  teams: Record<string, string>;
}

export interface Team {
  name: string;
  created_ms: number;
  members: number;
}

export const ROLES = ["viewer", "member", "maintainer", "owner"] as const;

const api = (path: string): string => `/api/v1/${path}`;
const at = (...parts: string[]): string => api(parts.map(encodeURIComponent).join("/"));

export const tokensQuery = () =>
  queryOptions({
    queryKey: ["settings", currentTeam(), "tokens"] as const,
    queryFn: async ({ signal }) => (await json<{ tokens: Token[] }>(api("tokens"), { signal })).tokens,
  });

export const membersQuery = () =>
  queryOptions({
    queryKey: ["settings", currentTeam(), "members"] as const,
    queryFn: async ({ signal }) => (await json<{ members: Member[] }>(api("members"), { signal })).members,
  });

export const usersQuery = () =>
  queryOptions({
    queryKey: ["settings", currentTeam(), "users"] as const,
    queryFn: async ({ signal }) => (await json<{ users: Person[] }>(api("users"), { signal })).users,
  });

export const teamsQuery = () =>
  queryOptions({
    queryKey: ["settings", currentTeam(), "teams"] as const,
    queryFn: async ({ signal }) => (await json<{ teams: Team[] }>(api("teams"), { signal })).teams,
  });

export const sharesQuery = () =>
  queryOptions({
    queryKey: ["settings", currentTeam(), "shares"] as const,
    queryFn: async ({ signal }) => (await json<Schemas["ShareList"]>(api("shares"), { signal })).teams,
  });

export const queueRulesQuery = () =>
  queryOptions({
    queryKey: ["settings", currentTeam(), "queues"] as const,
    queryFn: async ({ signal }) => (await json<Schemas["QueueList"]>(api("queues"), { signal })).queues,
  });

export const policyQuery = () =>
  queryOptions({
    queryKey: ["settings", currentTeam(), "policy"] as const,
    queryFn: ({ signal }) => json<Schemas["PolicyReply"]>(api("policy"), { signal }),
  });

export interface AuditWish {
  kind?: string | undefined;
  actor?: string | undefined;
  scope?: "all" | undefined;
}

/** Rows of a page of the audit log. */
export const AUDIT_ROWS = 100;

/** A page of the audit log, the latest first, before an event. */
export async function loadAudit(wish: AuditWish, before: number | undefined, signal: AbortSignal): Promise<YardEvent[]> {
  const query = { limit: AUDIT_ROWS, order: "newest", ...wish, before };
  return (await json<{ events: YardEvent[] }>(api("events"), { query, signal })).events;
}

export interface TokenWish {
  label: string;
  role: string;
  user?: string | undefined;
  days: number | null;
}

export const makeToken = (wish: TokenWish): Promise<MadeToken> => json(api("tokens"), { method: "POST", body: wish });
export const revokeToken = (id: string): Promise<unknown> => json(at("tokens", id), { method: "DELETE" });
export const makeUser = (name: string, isAdmin: boolean): Promise<unknown> =>
  json(api("users"), { method: "POST", body: { name, is_admin: isAdmin } });
export const setDisabled = (name: string, disabled: boolean): Promise<unknown> =>
  json(at("users", name), { method: "PATCH", body: { disabled } });
export const makeTeam = (name: string): Promise<unknown> => json(api("teams"), { method: "POST", body: { name } });
export const setMember = (team: string, user: string, role: string): Promise<unknown> =>
  json(at("teams", team, "members", user), { method: "PUT", body: { role } });
export const removeMember = (team: string, user: string): Promise<unknown> =>
  json(at("teams", team, "members", user), { method: "DELETE" });
export const setShare = (team: string, share: TeamShare): Promise<unknown> =>
  json(at("teams", team, "share"), { method: "PUT", body: share });
export const setQueue = (name: string, rules: QueueRules): Promise<unknown> => json(at("queues", name), { method: "PUT", body: rules });
export const removeQueue = (name: string): Promise<unknown> => json(at("queues", name), { method: "DELETE" });
