"""The tables of jobs: queue, attempts, logs. Owns their shape; knows no query.

Shares the metadata of `schema`, which imports this module last. Times are milliseconds since the
epoch; GPUs in settings are numbers, in placements thousandths.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

from trackyard.store.schema.columns import big_id, integer, ref, words
from trackyard.store.schema.columns import metadata as shared

Table(
    "queues",
    shared,
    Column("name", Text, primary_key=True),
    #: limits and order; JSON of queue.shares.settings.QueueSettings
    words("settings"),
    integer("created_ms"),
    integer("updated_ms"),
)
Table(
    "team_shares",
    shared,
    ref("team_id", "teams.id"),
    Column("weight", Float(53), nullable=False),
    Column("quota_gpus", Float(53), nullable=True),
    Column("limit_gpus", Float(53), nullable=True),
    integer("max_running", nullable=True),
    #: GPU-seconds used up to `usage_ms`, decayed
    Column("usage", Float(53), nullable=False),
    integer("usage_ms"),
    #: least role for a priority class; JSON object, null for none
    words("classes", nullable=True),
    #: urgent GPU-hours in seven days; null for no budget
    Column("urgent_gpu_hours", Float(53), nullable=True),
    #: name of the team that is its department; null for none
    words("parent", nullable=True),
    #: GPUs of its quota that others may borrow for jobs that may not be preempted; null for none
    Column("lendable_gpus", Float(53), nullable=True),
    PrimaryKeyConstraint("team_id"),
)
Table(
    "packages",
    shared,
    ref("team_id", "teams.id"),
    words("digest"),
    #: name of the bytes in the blob store
    words("blob"),
    integer("size"),
    words("format"),
    words("user_name"),
    integer("created_ms"),
    PrimaryKeyConstraint("team_id", "digest"),
    Index(None, "blob"),
)
Table(
    "job_specs",
    shared,
    big_id(),
    #: JSON of jobs.spec.JobSpec; never changed, shared by the members of an array
    words("spec"),
)
Table(
    "arriving_arrays",
    shared,
    #: a large array of which some jobs are not written yet
    Column("array_id", Text, primary_key=True),
    words("name"),
    ref("team_id", "teams.id"),
    #: what its jobs have in common; JSON of queue.submit.arrays.SubmissionPlan
    words("plan"),
    #: how many of its jobs are written, and when the last of them were
    integer("done"),
    integer("written_ms"),
)
Table(
    "jobs",
    shared,
    big_id(),
    words("job_id"),
    ref("team_id", "teams.id"),
    integer("user_id", nullable=True),
    words("user_name"),
    ref("spec_id", "job_specs.id"),
    words("name"),
    #: a word of core.job.JobState
    words("state"),
    words("queue"),
    integer("priority"),
    integer("held"),
    integer("not_before_ms"),
    integer("submitted_ms"),
    #: start of the first attempt, and the end of the last
    integer("started_ms", nullable=True),
    integer("ended_ms", nullable=True),
    words("run_uuid"),
    #: the array it belongs to, its index there, and how many of it may run at once
    words("array_id"),
    integer("array_index", nullable=True),
    integer("array_cap"),
    #: number of the latest attempt; 0 before the first
    integer("attempt"),
    #: grows with every claim; reports with a lower one are refused
    integer("epoch"),
    #: attempts that failed by themselves, and those ended from outside
    integer("failures"),
    integer("interruptions"),
    #: run time of earlier attempts that a checkpoint keeps
    integer("attained_ms"),
    #: nodes it failed on; JSON list
    words("avoid"),
    #: the engine's own word when it refused the last attempt
    words("engine_note"),
    #: how it ended, a word of core.ports.ExitCause, and one sentence
    words("cause", nullable=True),
    words("sentence", nullable=True),
    #: grows with every change of this row
    integer("version"),
    UniqueConstraint("job_id"),
    Index(None, "state", "version", "id"),
    Index(None, "state", "ended_ms"),
    Index(None, "team_id", "id"),
    Index(None, "team_id", "name", "id"),
    Index(None, "array_id"),
    Index(None, "run_uuid"),
)
Table(
    "submissions",
    shared,
    #: what a client calls its submission, so that repeating it submits nothing twice
    ref("team_id", "teams.id"),
    words("key"),
    words("job_id"),
    integer("created_ms"),
    PrimaryKeyConstraint("team_id", "key"),
)
Table(
    "attempts",
    shared,
    big_id(),
    words("attempt_id"),
    ref("job", "jobs.id"),
    integer("number"),
    integer("epoch"),
    #: a word of core.job.AttemptState
    words("state"),
    #: JSON of core.resources.Placement
    words("placement"),
    integer("members"),
    integer("admitted_ms"),
    #: the engine took it
    integer("launched_ms", nullable=True),
    #: the command runs
    integer("started_ms", nullable=True),
    integer("ended_ms", nullable=True),
    #: the last heartbeat that was written down
    integer("seen_ms", nullable=True),
    words("cause", nullable=True),
    integer("exit_code", nullable=True),
    integer("signal", nullable=True),
    words("sentence", nullable=True),
    words("error_line", nullable=True),
    #: whether the command said that its state is saved
    integer("saved"),
    integer("peak_memory_bytes", nullable=True),
    #: who or what asked it to stop: a word of ExitCause, when, with what grace, for which job
    words("stop_reason", nullable=True),
    integer("stop_ms", nullable=True),
    integer("grace_ms", nullable=True),
    words("stops_for", nullable=True),
    #: checkpoint step it could go on from, and its last sign of progress
    integer("resume_step", nullable=True),
    integer("step", nullable=True),
    #: what its environment is made of, for comparing attempts
    words("environment"),
    words("token_id"),
    #: how its script came to the job's run: empty, `taken up`, or the digest of a create call
    words("claimed"),
    #: JSON list of sentences
    words("notes"),
    #: 1 while stalled, and once its loss was seen to be NaN
    integer("stalled"),
    integer("nan_seen"),
    #: 1 once the engine has forgotten it and its log is whole
    integer("settled"),
    #: when its log was removed by age
    integer("log_pruned_ms", nullable=True),
    #: priority class it was admitted with; null: before that was kept
    integer("priority", nullable=True),
    #: when its package was in place, and when its first step was seen; null: not known
    integer("unpacked_ms", nullable=True),
    integer("first_step_ms", nullable=True),
    UniqueConstraint("attempt_id"),
    UniqueConstraint("job", "number"),
    Index(None, "state"),
    Index(None, "settled", "state"),
    Index(None, "ended_ms"),
)
Table(
    "attempt_members",
    shared,
    ref("attempt", "attempts.id"),
    integer("member"),
    #: bytes of log held, gapless from 0
    integer("log_end"),
    #: bytes the runner had to drop
    integer("log_lost"),
    integer("sample_seq"),
    words("hostname"),
    #: the runner's exit record; JSON
    words("exit", nullable=True),
    PrimaryKeyConstraint("attempt", "member"),
)
Table(
    "log_chunks",
    shared,
    ref("attempt", "attempts.id"),
    integer("member"),
    #: position of the first byte
    integer("start"),
    integer("size"),
    #: 1 when `data` is deflated
    integer("packed"),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("attempt", "member", "start"),
)
Table(
    "checkpoints",
    shared,
    big_id(),
    ref("job", "jobs.id"),
    integer("attempt"),
    words("name"),
    integer("step"),
    integer("sequence"),
    integer("size_bytes"),
    integer("created_ms"),
    #: how long training waited for it
    Column("blocked_ms", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("job", "name"),
    Index(None, "created_ms"),
)
Table(
    "child_runs",
    shared,
    #: a run that a job's own script created, and the job's run
    Column("run_uuid", Text, primary_key=True),
    words("root_uuid"),
    Index(None, "root_uuid"),
)
Table(
    "node_load",
    shared,
    #: how busy a node was, as its jobs' samples tell: minutes at first, hours later
    words("node"),
    #: cpu, memory, or gpu with its index
    words("what"),
    integer("at_ms"),
    integer("width_ms"),
    #: sum, number and greatest of the percentages sampled
    Column("total", Float(53), nullable=False),
    integer("count"),
    Column("most", Float(53), nullable=False),
    PrimaryKeyConstraint("node", "what", "at_ms", "width_ms"),
    Index(None, "width_ms", "at_ms"),
)
Table(
    "leaders",
    shared,
    #: what is led; one row for the scheduler
    Column("role", Text, primary_key=True),
    words("holder"),
    integer("epoch"),
    integer("since_ms"),
    integer("expires_ms"),
)
