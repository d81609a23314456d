/** Sweeps: the list, one sweep, what can be done to it. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, json } from "./client";
import type { components } from "./types.gen";

type Schemas = components["schemas"];
export type Sweep = Schemas["SweepView"];
/** Free objects have no shape in the schema; these are read as they come. */
export type Values = Record<string, string | number | boolean>;
export type Trial = Omit<Schemas["TrialDetail"], "params"> & { params: Values };
export type Best = Omit<Schemas["BestView"], "params"> & { params: Values };
export type SweepDetail = Omit<Schemas["SweepDetail"], "trials" | "best" | "space" | "spec"> & {
  trials: Trial[];
  best: Best | null;
  space: Record<string, Record<string, unknown>>;
  spec: Record<string, unknown>;
};

const path = (sweep: string, verb = ""): string =>
  `/api/v1/sweeps/${encodeURIComponent(sweep)}${verb === "" ? "" : `/${verb}`}`;

/** The sweeps of the team, the newest first. */
export const sweepsQuery = () =>
  queryOptions({
    queryKey: ["sweeps", currentTeam()] as const,
    queryFn: async ({ signal }) => (await json<Schemas["SweepList"]>("/api/v1/sweeps", { query: { limit: 500 }, signal })).sweeps,
  });

/** One sweep with its trials; values of running ones are read again while any runs. */
export const sweepQuery = (sweep: string) =>
  queryOptions({
    queryKey: ["sweep", currentTeam(), sweep] as const,
    queryFn: ({ signal }) => json<SweepDetail>(path(sweep), { signal }),
    refetchInterval: (query) => (query.state.data?.sweep.state === "running" ? 3000 : false),
  });

export interface Budget {
  trials?: number;
  gpu_hours?: number;
  seconds?: number;
}

const send = <T>(sweep: string, verb: string, body: object): Promise<T> => json<T>(path(sweep, verb), { method: "POST", body });

export const stopSweep = (sweep: string): Promise<Sweep> => send(sweep, "stop", {});
export const extendSweep = (sweep: string, budget: Budget): Promise<Sweep> => send(sweep, "extend", budget);
export const searchAround = (sweep: string, budget: Budget): Promise<{ sweep: Sweep }> => send(sweep, "around", { budget });
export const trainBest = (sweep: string, values: Values): Promise<{ job_id: string }> => send(sweep, "train", { values });
export const registerBest = (sweep: string, model: string, folder: string): Promise<Schemas["Registered"]> =>
  send(sweep, "register", { model, path: folder });
