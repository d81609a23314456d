"""The catalogue of events: one line per kind. An event is one fact that happened; the log of
them is append-only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: kind -> what happened, as one phrase. The docs test fails on a kind that docs/events.md does
#: not name.
EVENT_KINDS: dict[str, str] = {
    "team.created": "a team was created",
    "team.updated": "a team's share, quota or limits changed",
    "user.created": "a user was created",
    "user.updated": "a user was changed or disabled",
    "member.set": "a user joined a team or changed role",
    "member.removed": "a user left a team",
    "token.created": "an access token was issued",
    "token.revoked": "an access token was revoked",
    "secret.set": "a team's secret was stored or replaced",
    "secret.removed": "a team's secret was removed",
    "session.started": "a user signed in to the web UI",
    "session.ended": "a user signed out",
    "experiment.created": "an experiment was created",
    "experiment.updated": "an experiment was renamed",
    "experiment.deleted": "an experiment was deleted (it can be restored)",
    "experiment.restored": "an experiment was restored",
    "experiment.tagged": "a tag of an experiment was set or removed",
    "experiment.imported": "an experiment came from another tracker, or what changed there did",
    "run.created": "a run was created",
    "run.updated": "a run was renamed or changed state",
    "run.finished": "a run reached an end state",
    "run.logged": "parameters, tags or new metric names were logged to a run",
    "run.inputs": "inputs or outputs were recorded on a run",
    "run.deleted": "a run was deleted (it can be restored)",
    "run.restored": "a run was restored",
    "run.purged": "a deleted run was removed for good",
    "run.imported": "a run came from another tracker, or what changed there did",
    "artifact.written": "an artifact was written",
    "artifact.deleted": "an artifact was deleted",
    "model.created": "a registered model was created",
    "model.updated": "a registered model was renamed, described or tagged",
    "model.deleted": "a registered model was deleted",
    "model.imported": "a registered model and its versions came from another tracker",
    "model_version.created": "a model version was created",
    "model_version.updated": "a model version was described, tagged or moved to a stage",
    "model_version.deleted": "a model version was deleted",
    "model_alias.set": "an alias was pointed at a model version",
    "model_alias.deleted": "an alias was removed",
    "logged_model.created": "a logged model was created",
    "logged_model.updated": "a logged model was finalised, tagged or given parameters",
    "logged_model.deleted": "a logged model was deleted",
    "logged_model.imported": "a logged model came from another tracker",
    "trace.imported": "a trace came from another tracker",
    "trace.logged": "a trace, or spans of one, came in",
    "trace.updated": "a trace was tagged, assessed or linked to a run",
    "trace.deleted": "traces of an experiment were deleted",
    "webhook.created": "a webhook was created",
    "webhook.updated": "a webhook was changed, switched on or off",
    "webhook.deleted": "a webhook was deleted",
    "alert.added": "an alert rule was made",
    "alert.removed": "an alert rule was removed",
    "alert.fired": "an alert's condition holds; an incident begins",
    "alert.resolved": "an alert's condition does not hold any more; its incident is over",
    "alert.acknowledged": "somebody looks after an incident",
    "alert.escalated": "nobody acknowledged an incident in time; it was told elsewhere",
    "alert.silenced": "somebody asked for silence about alerts for a time",
    "alert.channel_added": "a channel for alerts was made",
    "alert.channel_removed": "a channel for alerts was removed",
    "eval_dataset.created": "an evaluation data set was created",
    "eval_dataset.updated": "an evaluation data set was given records, tags or experiments",
    "eval_dataset.deleted": "an evaluation data set was deleted",
    "scorer.registered": "a version of a scorer was registered",
    "scorer.deleted": "a scorer, or a version of one, was deleted",
    "job.submitted": "a job was submitted and joined its queue",
    "job.admitted": "the queue gave a job its nodes and GPUs; an attempt begins",
    "job.running": "a job's command runs",
    "job.succeeded": "a job ended well",
    "job.failed": "a job ended badly and is not tried again",
    "job.stopped": "a job was stopped by someone",
    "job.stopping": "someone asked a running job to stop",
    "job.preempting": "the queue asked a running job to save and make room for another",
    "job.requeued": "a job waits in its queue again",
    "job.held": "a waiting job was held back by someone",
    "job.released": "a held job may start again",
    "job.changed": "a waiting job's request was changed",
    "job.unlisted": "a Ray client deleted an ended job from Ray's list; job, run and logs stay",
    "job.blocked": "a waiting job cannot start as it is written, or nowhere on these nodes",
    "job.stalled": "a running job showed no progress within the interval it promised",
    "job.recovered": "a stalled job shows progress again",
    "job.loss_nan": "a running job's loss is not a number any more",
    "job.out_of_memory": "a job ran out of memory",
    "job.rolled_back": "a new attempt went on from an earlier step; later points count no more",
    "job.engine_waits": "the batch system keeps a job waiting that was handed to it, and says why",
    "job.hint": "a job failed in a way that is known, with what mends it",
    "claim.asked": "a running job asked for nodes after it had started; they joined the queue",
    "claim.granted": "a running job was given the nodes it asked for",
    "claim.seen": "a running job holds GPUs that it did not ask for; its team is charged",
    "claim.released": "nodes that a running job had asked for are free again, or not wanted",
    "attempt.started": "an attempt's runner reported for the first time",
    "attempt.ended": "an attempt is over, with its cause",
    "attempt.lost": "an attempt's runner or node went away without a word",
    "attempt.ticket_refused": (
        "the ticket by which an attempt's runner gets its credential was used a second time:"
        " somebody else may have read it in the cluster"
    ),
    "attempt.labelled": "a log policy knows what an attempt failed of",
    "attempt.log_removed": "the log of an attempt that ended long ago was removed",
    "attempt.refused": "the engine would not start an attempt",
    "checkpoint.saved": "a job saved a complete checkpoint",
    "package.uploaded": "a job's working folder was uploaded",
    "queue.set": "a queue was made or its limits changed",
    "queue.deleted": "a queue was removed",
    "log_policy.added": "a log policy was made",
    "log_policy.removed": "a log policy was removed",
    "queue.decision_refused": "decisions of a pass broke a stated rule and were dropped",
    "node.joined": "a node joined or came back",
    "node.changed": "a node's hardware changed",
    "node.lost": "a node went away",
    "node.drained": "an operator keeps new work off a node",
    "node.undrained": "an operator gave a node back to the queue, or its drain was over",
    "node.quarantined": "a health check or an operator took a node out of service",
    "node.unquarantined": "a node's checks hold again, or an operator lifted its quarantine",
    "node.check_failed": "a health check of a node warns or fails",
    "node.check_passed": "a health check of a node holds again",
    "node.labelled": "an operator set or removed labels of a node",
    "lease.created": "nodes were promised to someone for a time",
    "lease.starting": "a lease's time has come; what others run on its nodes is drained",
    "lease.started": "a lease is active: its nodes are its holder's",
    "lease.changed": "a lease was moved, shortened, renamed or given other nodes",
    "lease.extended": "a lease was prolonged",
    "lease.transferred": "a lease was handed over to someone else",
    "lease.ending": "a lease will end soon, or its use ends earlier because another follows",
    "lease.terminating": "a lease is over; its jobs save and make room",
    "lease.ended": "a lease is over and its nodes are free of it",
    "lease.deleted": "a lease was given back before it began",
    "lease.degraded": "a node of a lease does not work",
    "lease.replaced": "an equal node took the place of one that does not work",
    "lease.restored": "a node of a lease works again",
    "lease.failed": "a lease's time has come and none of its nodes works",
    "lease.idle": "nobody uses the nodes of an active lease",
    "lease.lent": "the idle nodes of a lease are lent to preemptible jobs",
    "lease.recalled": "lent nodes are called back for their holder",
    "lease.crossed": "a job that was sent to Ray past the queue runs on the nodes of a lease",
    "lease.shaken": "what keeps jobs past the queue off a lease's nodes was lost; it is mended",
    "lease.flagged": "a team strings leases together, or holds much of one kind of node",
    "engine.silent": "what the engine stands on does not answer; jobs that run go on",
    "engine.answers": "what the engine stands on answers again",
    "scheduler.elected": "a server process became the one that schedules",
    "access.denied": "a request was refused for want of permission",
    "backup.taken": "a backup of the server was taken",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact, as it is written beside the state it changed."""

    #: a key of EVENT_KINDS
    kind: str
    #: team the fact belongs to; None for the platform
    team_id: int | None
    #: who did it: a user's name, `attempt:<id>` or `system`
    actor: str
    #: what it is about: `run`, `experiment`, `model`, ...
    subject: str
    #: id of that thing as users know it
    subject_id: str
    #: further facts, JSON-ready
    data: dict[str, Any] = field(default_factory=dict)
