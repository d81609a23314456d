/** Registered models and their versions: reading and changing them. Knows no page. */
import { queryOptions } from "@tanstack/react-query";

import { currentTeam, mlflow } from "./client";
import type { ModelVersion, RegisteredModel } from "./wire";

/** All models, the one changed last first. */
export const modelsQuery = () =>
  queryOptions({
    queryKey: ["models", currentTeam()] as const,
    queryFn: async ({ signal }) => {
      const found: RegisteredModel[] = [];
      let page: string | undefined;
      do {
        const answer: { registered_models?: RegisteredModel[]; next_page_token?: string } = await mlflow(
          "registered-models/search",
          { query: { max_results: 500, page_token: page }, signal },
        );
        found.push(...(answer.registered_models ?? []));
        page = answer.next_page_token === "" ? undefined : answer.next_page_token;
      } while (page !== undefined && found.length < 5000);
      return found.sort((a, b) => b.last_updated_timestamp - a.last_updated_timestamp);
    },
  });

/** One model. */
export const modelQuery = (name: string) =>
  queryOptions({
    queryKey: ["model", currentTeam(), name] as const,
    queryFn: async ({ signal }) =>
      (await mlflow<{ registered_model: RegisteredModel }>("registered-models/get", { query: { name }, signal })).registered_model,
  });

/** The versions of a model, the newest first. */
export const versionsQuery = (name: string) =>
  queryOptions({
    queryKey: ["versions", currentTeam(), name] as const,
    queryFn: async ({ signal }) => {
      const filter = `name='${name.replace(/'/g, "\\'")}'`;
      const answer = await mlflow<{ model_versions?: ModelVersion[] }>("model-versions/search", {
        query: { filter, max_results: 1000 },
        signal,
      });
      return (answer.model_versions ?? []).sort((a, b) => Number(b.version) - Number(a.version));
    },
  });

const send = (path: string, method: string, body: unknown): Promise<unknown> => mlflow(path, { method, body });

export const createModel = (name: string): Promise<unknown> => send("registered-models/create", "POST", { name });
export const createVersion = (name: string, source: string, runId: string): Promise<{ model_version: ModelVersion }> =>
  mlflow("model-versions/create", { method: "POST", body: { name, source, run_id: runId } });
export const describeModel = (name: string, description: string): Promise<unknown> =>
  send("registered-models/update", "PATCH", { name, description });
export const deleteModel = (name: string): Promise<unknown> => send("registered-models/delete", "DELETE", { name });
export const setModelTag = (name: string, key: string, value: string): Promise<unknown> =>
  send("registered-models/set-tag", "POST", { name, key, value });
export const deleteModelTag = (name: string, key: string): Promise<unknown> =>
  send("registered-models/delete-tag", "DELETE", { name, key });
export const setAlias = (name: string, alias: string, version: string): Promise<unknown> =>
  send("registered-models/alias", "POST", { name, alias, version });
export const deleteAlias = (name: string, alias: string): Promise<unknown> =>
  send("registered-models/alias", "DELETE", { name, alias });
export const describeVersion = (name: string, version: string, description: string): Promise<unknown> =>
  send("model-versions/update", "PATCH", { name, version, description });
export const setVersionTag = (name: string, version: string, key: string, value: string): Promise<unknown> =>
  send("model-versions/set-tag", "POST", { name, version, key, value });
export const deleteVersionTag = (name: string, version: string, key: string): Promise<unknown> =>
  send("model-versions/delete-tag", "DELETE", { name, version, key });
export const deleteVersion = (name: string, version: string): Promise<unknown> =>
  send("model-versions/delete", "DELETE", { name, version });
export const moveStage = (name: string, version: string, stage: string): Promise<unknown> =>
  send("model-versions/transition-stage", "POST", { name, version, stage, archive_existing_versions: false });

/** The run and path behind a version's source, where it is one of this server's runs. */
export function sourceOf(version: ModelVersion): { run: string | null; path: string } {
  const match = /^runs:\/([0-9a-f]{32})\/(.*)$/.exec(version.source);
  return { run: version.run_id !== undefined && version.run_id !== "" ? version.run_id : (match?.[1] ?? null), path: match?.[2] ?? "" };
}
