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
  "alert.added": "added",
  "alert.removed": "removed",
  "alert.silenced": "silenced",
  "alert.channel_added": "added a channel for",
  "alert.channel_removed": "removed a channel for",
  "log_policy.added": "added",
  "log_policy.removed": "removed",
  "trace.logged": "logged",
  "trace.updated": "changed",
  "trace.deleted": "deleted traces of",
  "eval_dataset.created": "created",
  "eval_dataset.updated": "changed",
  "eval_dataset.deleted": "deleted",
  "scorer.registered": "registered",
  "scorer.deleted": "deleted",
  "job.submitted": "submitted",
  "job.admitted": "gave nodes to",
  "job.running": "started",
  "job.succeeded": "finished",
  "job.failed": "failed",
  "job.stopped": "stopped",
  "job.stopping": "asked to stop",
  "job.preempting": "asked to make room:",
  "job.requeued": "queued again",
  "job.held": "held back",
  "job.released": "released",
  "job.changed": "changed the request of",
  "job.blocked": "cannot start",
  "job.stalled": "sees no progress of",
  "job.recovered": "sees progress of",
  "job.loss_nan": "sees a loss that is no number in",
  "job.out_of_memory": "ran out of memory in",
  "job.rolled_back": "went back in",
  "attempt.started": "began an attempt of",
  "attempt.ended": "ended an attempt of",
  "attempt.lost": "lost an attempt of",
  "attempt.refused": "refused an attempt of",
  "checkpoint.saved": "saved a checkpoint of",
  "node.joined": "added",
  "node.changed": "noticed a change of",
  "node.lost": "lost",
  "node.drained": "drained",
  "node.undrained": "returned to service",
  "node.quarantined": "quarantined",
  "node.unquarantined": "lifted the quarantine of",
  "node.check_failed": "failed a health check of",
  "node.check_passed": "passed a health check of",
  "node.labelled": "labelled",
  "sweep.created": "started",
  "sweep.extended": "extended",
  "sweep.improved": "found a better trial of",
  "sweep.trial_stopped": "stopped a trial of",
  "sweep.finished": "finished",
  "sweep.stopped": "stopped",
  "sweep.failed": "failed",
  "lease.created": "created",
  "lease.starting": "is freeing nodes for",
  "lease.started": "started",
  "lease.changed": "changed",
  "lease.extended": "extended",
  "lease.transferred": "transferred",
  "lease.ending": "warns of the end of",
  "lease.terminating": "drains",
  "lease.ended": "ended",
  "lease.deleted": "released",
  "lease.degraded": "lost a node of",
  "lease.replaced": "replaced a node of",
  "lease.restored": "restored a node of",
  "lease.failed": "could not start",
  "lease.idle": "noticed idle nodes of",
  "lease.lent": "lent the nodes of",
  "lease.recalled": "recalled the nodes of",
  "lease.crossed": "found another job on the nodes of",
  "lease.shaken": "repaired the reservation of",
  "lease.flagged": "flagged",
  "data.added": "added",
  "data.removed": "removed",
  "package.uploaded": "uploaded",
  "queue.set": "set the rules of",
  "queue.deleted": "deleted",
  "queue.decision_refused": "dropped decisions that broke a rule of",
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
  return /^[0-9a-f]{32,}$/.test(event.subject_id) ? event.subject_id.slice(0, 8) : event.subject_id;
}

/** Facts that say nothing a reader does not see already. */
const QUIET = new Set(["name", "experiment_id", "run_id", "source"]);

/** A fact as people read it: lists as words, check sums by their beginning, nothing where there is nothing. */
function wordsOf(value: unknown): string {
  if (value === null || value === undefined) {
    return "";
  }
  if (Array.isArray(value)) {
    return value.map(wordsOf).join(", ");
  }
  if (typeof value === "object") {
    return JSON.stringify(value);
  }
  const text = String(value as string | number | boolean);
  return /^[0-9a-f]{40,}$/.test(text) ? text.slice(0, 12) : text;
}

/** Further facts of an event in a few words. */
export function detailOf(event: EventLike): string {
  const { sentence } = event.data;
  if (typeof sentence === "string" && sentence !== "") {
    return sentence;
  }
  const parts: string[] = [];
  for (const [key, value] of Object.entries(event.data)) {
    const text = QUIET.has(key) ? "" : wordsOf(value);
    if (text !== "") {
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
  if (event.subject === "report") {
    return event.kind === "report.deleted" ? null : `/app/reports/${event.subject_id}`;
  }
  if (event.subject === "job") {
    return `/app/jobs/${event.subject_id}`;
  }
  if (event.subject === "node") {
    return "/app/nodes";
  }
  if (event.subject === "lease") {
    return `/app/leases?lease=${encodeURIComponent(event.subject_id)}`;
  }
  if (event.subject === "experiment") {
    return `/app/runs?exp=${encodeURIComponent(event.subject_id)}`;
  }
  if (event.subject === "model" || event.subject === "model_version" || event.subject === "registered_model") {
    return `/app/models/${encodeURIComponent(event.subject_id.split("/")[0] ?? "")}`;
  }
  return null;
}
