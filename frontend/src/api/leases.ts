/** Leases: the calendar, one's own, what is allowed, and changes with a dry run before them. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, Fault, json, link } from "./client";
import type { components } from "./types.gen";
import type { Draft, Verb } from "../lib/calendar-rows";
import { zoneName } from "../lib/calendar-time";
import type { LeaseWish } from "../lib/lease-lines";

type Schemas = components["schemas"];
export type Lease = Schemas["LeaseView"];
export type Calendar = Schemas["CalendarView"];
export type CalendarRow = Schemas["CalendarRow"];
export type CalendarLease = Schemas["CalendarLease"];
export type CalendarJob = Schemas["CalendarJob"];
export type LeaseAnswer = Schemas["LeaseAnswer"];
export type JobEffect = Schemas["JobEffect"];
export type Slot = Schemas["SlotView"];
export type Feed = Schemas["FeedToken"];

export interface Conflict {
  lease_id: string;
  name: string;
  user: string;
  team: string;
  starts_ms: number;
  ends_ms: number;
  nodes: string[];
}

/** Why a lease was refused, what is in the way, and where it would fit. */
export interface Refusal {
  refusal: string;
  sentence: string;
  remedy: string;
  conflicts: Conflict[];
  jobs: JobEffect[];
  slots: Slot[];
}

/** The refusal in a fault; null where it is another one. */
export function refusalOf(cause: unknown): Refusal | null {
  if (!(cause instanceof Fault) || cause.code !== "LEASE_REFUSED") {
    return null;
  }
  const told = cause.details as Partial<Refusal>;
  return { refusal: told.refusal ?? "", sentence: told.sentence ?? cause.message, remedy: told.remedy ?? "", conflicts: told.conflicts ?? [], jobs: told.jobs ?? [], slots: told.slots ?? [] };
}

/** The calendar of a window, of all nodes or of those of one type. */
export const calendarQuery = (from: number, to: number, type: string) =>
  queryOptions({
    queryKey: ["leases", currentTeam(), "calendar", from, to, type] as const,
    queryFn: ({ signal }) => json<Calendar>("/api/v1/leases/calendar", { query: { from_ms: from, to_ms: to, type: type === "" ? undefined : type }, signal }),
    refetchInterval: 30_000,
  });

/** One's own leases that are not over. */
export const myLeasesQuery = () =>
  queryOptions({
    queryKey: ["leases", currentTeam(), "mine"] as const,
    queryFn: async ({ signal }) => (await json<Schemas["LeaseList"]>("/api/v1/leases", { query: { mine: 1, zone: zoneName() }, signal })).leases,
    refetchInterval: 30_000,
  });

/** Leases that hold their nodes now, everybody's. */
export const activeLeasesQuery = () =>
  queryOptions({
    queryKey: ["leases", currentTeam(), "active"] as const,
    queryFn: async ({ signal }) => (await json<Schemas["LeaseList"]>("/api/v1/leases", { query: { state: "active", zone: zoneName() }, signal })).leases,
    refetchInterval: 30_000,
  });

/** One lease with its jobs. */
export const leaseQuery = (id: string) =>
  queryOptions({
    queryKey: ["leases", currentTeam(), "one", id] as const,
    queryFn: ({ signal }) => json<Lease>(`/api/v1/leases/${encodeURIComponent(id)}`, { query: { zone: zoneName() }, signal }),
  });

const post = <T>(path: string, body: object): Promise<T> => json<T>(`/api/v1/leases${path}`, { method: "POST", body });
const of = (id: string, verb: string): string => `/${encodeURIComponent(id)}/${verb}`;

/** Make a lease, or say what would become of it. */
export function createLease(wish: LeaseWish, dryRun: boolean): Promise<LeaseAnswer> {
  const chosen = wish.nodes.length > 0 ? { nodes: wish.nodes } : { type: wish.type, where: wish.where, count: wish.count };
  return post("", {
    ...chosen,
    name: wish.name,
    starts_ms: wish.starts_ms,
    ends_ms: wish.ends_ms,
    purpose: wish.purpose,
    before_end: wish.before_end,
    personal: wish.personal,
    dry_run: dryRun,
    zone: zoneName(),
  });
}

/** Give a lease another time or other nodes, or say what would become of it. */
export function changeLease(id: string, verb: Verb, before: Draft, after: Draft, dryRun: boolean): Promise<LeaseAnswer> {
  const more = { dry_run: dryRun, zone: zoneName() };
  if (verb === "extend") {
    return post(of(id, verb), { ends_ms: after.ends_ms, ...more });
  }
  if (verb === "shrink") {
    const gone = before.nodes.filter((node) => !after.nodes.includes(node));
    return post(of(id, verb), { ...(after.ends_ms < before.ends_ms ? { ends_ms: after.ends_ms } : {}), nodes: gone, ...more });
  }
  const started = after.starts_ms === before.starts_ms ? {} : { starts_ms: after.starts_ms };
  const sameNodes = after.nodes.length === before.nodes.length && after.nodes.every((node) => before.nodes.includes(node));
  return post(of(id, verb), { ...started, ends_ms: after.ends_ms, ...(sameNodes ? {} : { nodes: after.nodes }), ...more });
}

export const releaseLease = (id: string): Promise<LeaseAnswer> => post(of(id, "release"), { zone: zoneName() });
export const recallLease = (id: string): Promise<LeaseAnswer> => post(of(id, "recall"), { zone: zoneName() });
export const transferLease = (id: string, user: string): Promise<LeaseAnswer> => post(of(id, "transfer"), { user, zone: zoneName() });
/** A token that opens the calendar feed and nothing else; it is shown once. */
export const openFeed = (): Promise<Feed> => post("/feed", {});
/** Where the feed lies, for this browser's own session. */
export const feedAddress = (): string => link("/api/v1/leases/feed.ics");
