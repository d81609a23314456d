/** Events as sentences people say: a template a kind, the thing it is about as a link in it. Pure. */
import { readImageName } from "./media";
import { causeWord } from "./job-states";
import { count, duration, grouped } from "./format";
import { verbOf, type EventLike } from "./event-words";

export interface EventSentence {
  /** words before and after the name of what the event is about */
  before: string;
  after: string;
}

type Data = Record<string, unknown>;

const text = (data: Data, key: string): string => (typeof data[key] === "string" ? data[key] : "");
const number = (data: Data, key: string): number | null => (typeof data[key] === "number" ? data[key] : null);
const list = (data: Data, key: string): string => (Array.isArray(data[key]) ? data[key].map(String).join(", ") : text(data, key));
const on = (data: Data): string => (list(data, "nodes") === "" ? "" : ` on ${list(data, "nodes")}`);
const sentence = (data: Data): string => (text(data, "sentence") === "" ? "" : `: ${text(data, "sentence").replace(/\.$/, "")}`);
const size = (data: Data): string => {
  const [gpus, nodes] = [number(data, "gpus") ?? 0, number(data, "nodes") ?? 1];
  return `${gpus === 0 ? "no GPU" : count(gpus, "GPU")}${nodes > 1 ? ` on ${count(nodes, "node")}` : ""}`;
};

/** A file by its path; an image logged with a key by that and its step. */
const fileName = (path: string): string => {
  const image = readImageName(path);
  return image === null ? path || "a file" : `${image.isSmall ? "a small copy of " : ""}image ${image.key} of step ${grouped(image.step)}`;
};

const running = (data: Data): string => {
  const step = number(data, "resume_step");
  const again = (number(data, "attempt") ?? 1) > 1;
  const lost = number(data, "lost_steps");
  return `{it} ${again ? "resumed" : "started"}${step === null ? "" : ` at step ${grouped(step)}`}${on(data)}${lost === null || lost === 0 ? "" : `; ${count(lost, "step")} lost`}`;
};

/** `{actor}` and `{it}` are filled in; what the system did is told of the thing, not of the system. */
const TEMPLATES: Record<string, (data: Data) => string> = {
  "job.submitted": (data) => `{actor} submitted {it} to queue ${text(data, "queue")}: ${size(data)}, ${text(data, "priority")} priority`,
  "job.admitted": (data) => `{it} was placed${on(data)} after waiting ${duration(number(data, "waited_ms") ?? 0)}`,
  "job.running": running,
  "job.succeeded": (data) => `{it} succeeded${number(data, "wall_ms") === null ? "" : ` after ${duration(number(data, "wall_ms") ?? 0)}`}`,
  "job.failed": (data) => `{it} failed${sentence(data)}`,
  "job.stopped": () => "{it} was stopped",
  "job.stopping": () => "{actor} asked {it} to stop",
  "job.preempting": (data) => `{it} is saving to make room for another job${sentence(data)}`,
  "job.requeued": (data) => `{it} is queued again${sentence(data)}`,
  "job.held": () => "{actor} put {it} on hold",
  "job.released": () => "{actor} released {it}",
  "job.changed": () => "{actor} changed the request of {it}",
  "job.blocked": (data) => `{it} cannot start${sentence(data)}`,
  "job.stalled": (data) => `{it} stalled${sentence(data)}`,
  "job.recovered": () => "{it} is making progress again",
  "job.loss_nan": (data) => `The loss of {it} became NaN${number(data, "step") === null ? "" : ` at step ${grouped(number(data, "step") ?? 0)}`}`,
  "job.out_of_memory": (data) => `{it} ran out of memory${sentence(data)}`,
  "job.rolled_back": (data) => `{it} went back to step ${grouped(number(data, "step") ?? number(data, "resume_step") ?? 0)}`,
  "job.hint": (data) => `Hint for {it}${sentence(data)}`,
  "alert.fired": (data) => `Alert “${text(data, "alert")}” on {it}${sentence(data)}`,
  "alert.resolved": (data) => `Alert “${text(data, "alert")}” on {it} is over${sentence(data)}`,
  "alert.acknowledged": (data) => `{actor} acknowledged the alert “${text(data, "alert")}” on {it}`,
  "alert.escalated": (data) => `Nobody acknowledged the alert “${text(data, "alert")}” on {it}: it was escalated`,
  "attempt.labelled": (data) => `Attempt ${number(data, "attempt") ?? ""} of {it}${sentence(data)}`,
  "attempt.started": (data) => `Attempt ${number(data, "attempt") ?? ""} of {it} began${on(data)}`,
  "attempt.ended": (data) => `Attempt ${number(data, "attempt") ?? ""} of {it} ended: ${causeWord({ cause: text(data, "cause") || null, exit_code: number(data, "exit_code"), signal: number(data, "signal") })}`,
  "attempt.lost": (data) => `Attempt ${number(data, "attempt") ?? ""} of {it} was lost${on(data)}`,
  "attempt.refused": (data) => `The engine refused to start {it}${sentence(data)}`,
  "checkpoint.saved": (data) => `{it} saved a checkpoint${number(data, "step") === null ? "" : ` at step ${grouped(number(data, "step") ?? 0)}`}`,
  "node.joined": (data) => `Node {it} joined with ${count(number(data, "gpus") ?? 0, "GPU")}`,
  "node.lost": () => "Node {it} was lost",
  "node.changed": () => "The hardware of node {it} changed",
  "node.drained": (data) => `{actor} drained node {it}${text(data, "note") === "" ? "" : `: ${text(data, "note")}`}`,
  "node.undrained": () => "{actor} put node {it} back into service",
  "node.quarantined": (data) => `Node {it} was quarantined${sentence(data)}`,
  "node.unquarantined": () => "Node {it} left quarantine",
  "node.check_failed": (data) => `A health check of node {it} failed${sentence(data)}`,
  "node.check_passed": (data) => `A health check of node {it} passes again${sentence(data)}`,
  "run.created": () => "{actor} started run {it}",
  "run.finished": (data) => `Run {it} ${({ FINISHED: "succeeded", FAILED: "failed", KILLED: "was stopped" } as Record<string, string>)[text(data, "status")] ?? "ended"}`,
  "run.updated": (data) => (text(data, "status") === "" ? "{actor} renamed run {it}" : `Run {it} is ${text(data, "status").toLowerCase()}`),
  "run.logged": () => "{actor} logged to run {it}",
  "run.inputs": () => "{actor} recorded inputs of run {it}",
  "artifact.written": (data) => `{actor} wrote ${fileName(text(data, "path"))} to run {it}`,
  "artifact.deleted": (data) => `{actor} deleted ${text(data, "path") || "a file"} of run {it}`,
  "experiment.created": () => "{actor} created experiment {it}",
  "experiment.tagged": (data) => `{actor} set ${text(data, "key") || "a tag"} on experiment {it}`,
  "model.created": () => "{actor} created model {it}",
  "model_version.created": (data) => `{actor} registered ${number(data, "version") === null && text(data, "version") === "" ? "a version" : `version ${String(data.version)}`} of model {it}`,
  "model_alias.set": (data) => `{actor} pointed alias ${text(data, "alias")} of model {it} at version ${String(data.version ?? "")}`,
  "report.created": () => "{actor} created report {it}",
  "report.updated": () => "{actor} changed report {it}",
  "report.deleted": () => "{actor} deleted report {it}",
  "lease.created": () => "{actor} created lease {it}",
  "lease.starting": () => "Nodes are being freed for lease {it}",
  "lease.changed": (data) => `{actor} changed lease {it}${sentence(data)}`,
  "lease.transferred": () => "{actor} transferred lease {it}",
  "lease.terminating": () => "The nodes of lease {it} are being drained",
  "lease.deleted": () => "{actor} released lease {it}",
  "lease.degraded": (data) => `Lease {it} is missing a node${sentence(data)}`,
  "lease.replaced": (data) => `A node of lease {it} was replaced${sentence(data)}`,
  "lease.restored": (data) => `A node of lease {it} is healthy again${sentence(data)}`,
  "lease.failed": (data) => `Lease {it} could not start${sentence(data)}`,
  "lease.crossed": (data) => `Another job is running on nodes of lease {it}${sentence(data)}`,
  "lease.shaken": (data) => `The reservation of lease {it} was repaired${sentence(data)}`,
  "lease.flagged": (data) => `Lease {it} was flagged${sentence(data)}`,
  "sweep.created": () => "{actor} started sweep {it}",
  "sweep.extended": () => "{actor} extended sweep {it}",
  "sweep.improved": (data) => `Sweep {it} found a better trial${sentence(data)}`,
  "sweep.trial_stopped": (data) => `A trial of sweep {it} was stopped early${sentence(data)}`,
  "sweep.finished": (data) => `Sweep {it} finished${sentence(data)}`,
  "sweep.stopped": () => "{actor} stopped sweep {it}",
  "sweep.failed": (data) => `Sweep {it} failed${sentence(data)}`,
  "data.added": (data) => `{actor} added version ${String(data.version ?? "")} of data set {it}`.replace("version  ", "a version "),
  "package.uploaded": () => "{actor} uploaded a package",
  "lease.started": () => "Lease {it} began",
  "lease.ended": () => "Lease {it} ended",
  "lease.ending": () => "Lease {it} ends soon",
  "lease.extended": () => "{actor} extended lease {it}",
  "lease.idle": () => "Nobody uses the nodes of lease {it}",
  "lease.lent": () => "The idle nodes of lease {it} are lent to preemptible jobs",
  "lease.recalled": () => "The nodes of lease {it} are being recalled",
  "member.set": (data) => `{actor} made {it} ${text(data, "role") || "a member"} of the team`,
  "member.removed": () => "{actor} removed {it} from the team",
  "user.created": () => "{actor} created user {it}",
  "user.updated": ({ disabled }) => `{actor} ${disabled === true ? "disabled" : disabled === false ? "enabled" : "changed"} user {it}`,
  "team.updated": () => "{actor} changed the share and limits of team {it}",
  "queue.set": () => "{actor} set the rules of queue {it}",
  "queue.deleted": () => "{actor} removed queue {it}",
  "secret.set": () => "{actor} set secret {it}",
  "secret.removed": () => "{actor} removed secret {it}",
  "webhook.created": () => "{actor} created webhook {it}",
  "webhook.updated": () => "{actor} changed webhook {it}",
  "webhook.deleted": () => "{actor} deleted webhook {it}",
  "session.started": () => "{actor} signed in",
  "session.ended": () => "{actor} signed out",
  "token.created": (data) => `{actor} issued a token for ${text(data, "user") || "a user"}`,
  "token.revoked": () => "{actor} revoked a token",
  "team.created": () => "Team {it} was created",
};

/** Say an event. Where no template is known: who did what to which kind of thing. */
export function sentenceOf(event: EventLike): EventSentence {
  const made = TEMPLATES[event.kind]?.(event.data) ?? `{actor} ${verbOf(event.kind)} ${event.subject.replace(/_/g, " ")} {it}${sentence(event.data)}`;
  const who = event.actor === "system" ? "Trackyard" : event.actor.replace(/^attempt:.*/, "Its job");
  const [before = "", after] = made.replace("{actor}", who).split("{it}");
  const start = before;
  return after === undefined ? { before: start, after: "" } : { before: start, after };
}

/** Whether the sentence names the thing itself. */
export const namesIt = (event: EventLike): boolean => !/^(session|token)\./.test(event.kind);
