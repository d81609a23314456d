/** Facts of a run that pages show in their own places. Pure. */
import type { KeyValue } from "../api/wire";

/** Tags as a map. */
export function tagMap(tags: readonly KeyValue[] | undefined): Map<string, string> {
  return new Map((tags ?? []).map((tag) => [tag.key, tag.value]));
}

/** Where a commit can be looked at, when the source is a place on the web. */
export function commitAddress(repository: string | undefined, commit: string): string | null {
  if (repository === undefined) {
    return null;
  }
  const match = /^(?:git@([^:]+):|(?:https?|ssh):\/\/(?:[^@/]*@)?([^/]+)\/)(.+?)(?:\.git)?(?:#.*)?$/.exec(repository);
  const host = match?.[1] ?? match?.[2];
  return match === null || host === undefined ? null : `https://${host}/${match[3] ?? ""}/commit/${commit}`;
}

/** What a run knows of its source. */
export interface Source {
  name: string | null;
  kind: string | null;
  commit: string | null;
  branch: string | null;
  link: string | null;
}

export function sourceFacts(tags: ReadonlyMap<string, string>): Source {
  const commit = tags.get("mlflow.source.git.commit") ?? null;
  return {
    name: tags.get("mlflow.source.name") ?? null,
    kind: tags.get("mlflow.source.type") ?? null,
    commit,
    branch: tags.get("mlflow.source.git.branch") ?? null,
    link: commit === null ? null : commitAddress(tags.get("mlflow.source.git.repoURL"), commit),
  };
}
