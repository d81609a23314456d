/** Events as sentences. Pure. */

export interface EventLike {
  kind: string;
  actor: string;
  subject: string;
  subject_id: string;
  data: Record<string, unknown>;
}

const WORDS: Record<string, string> = {
  "run.created": "started",
  "run.updated": "changed",
  "run.finished": "ended",
  "run.logged": "logged to",
  "run.inputs": "recorded inputs of",
  "run.deleted": "deleted",
  "run.restored": "restored",
  "run.purged": "purged",
  "artifact.written": "wrote an artifact of",
  "artifact.deleted": "deleted an artifact of",
  "experiment.created": "created",
  "experiment.updated": "renamed",
  "experiment.deleted": "deleted",
  "experiment.restored": "restored",
  "experiment.tagged": "tagged",
  "model.created": "created",
  "model.updated": "changed",
  "model.deleted": "deleted",
  "model_version.created": "registered a version of",
  "model_version.updated": "changed a version of",
  "model_version.deleted": "deleted a version of",
  "model_alias.set": "set an alias of",
  "model_alias.deleted": "removed an alias of",
  "logged_model.created": "logged",
  "logged_model.updated": "changed",
  "logged_model.deleted": "deleted",
  "session.started": "signed in",
  "session.ended": "signed out",
  "token.created": "issued",
  "token.revoked": "revoked",
  "access.denied": "was refused",
};

/** What was done, as a verb; the kind itself where no word is known. */
export function verbOf(kind: string): string {
  return WORDS[kind] ?? kind.replace(/[._]/g, " ");
}

/** What it was done to, by the name people know it by. */
export function objectOf(event: EventLike): string {
  const name = event.data.name;
  if (typeof name === "string" && name !== "") {
    return name;
  }
  return /^[0-9a-f]{32}$/.test(event.subject_id) ? event.subject_id.slice(0, 8) : event.subject_id;
}

/** Facts that say nothing a reader does not see already. */
const QUIET = new Set(["name", "experiment_id", "run_id", "source"]);

/** Further facts of an event in a few words. */
export function detailOf(event: EventLike): string {
  const parts: string[] = [];
  for (const [key, value] of Object.entries(event.data)) {
    if (!QUIET.has(key) && value !== null && value !== "") {
      const text = typeof value === "object" ? JSON.stringify(value) : String(value as string | number | boolean);
      parts.push(`${key} ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`);
    }
  }
  return parts.join(" · ");
}

/** The page that shows what an event is about; null where there is none. */
export function pageOf(event: Pick<EventLike, "subject" | "subject_id" | "kind">): string | null {
  if (event.kind === "run.purged" || event.kind.endsWith("model.deleted")) {
    return null;
  }
  if (event.subject === "run") {
    return `/app/runs/${event.subject_id}`;
  }
  if (event.subject === "experiment") {
    return `/app/runs?exp=${encodeURIComponent(event.subject_id)}`;
  }
  if (event.subject === "model" || event.subject === "model_version" || event.subject === "registered_model") {
    return `/app/models/${encodeURIComponent(event.subject_id.split("/")[0] ?? "")}`;
  }
  return null;
}
