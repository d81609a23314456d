"""The beginning of a trial: a point becomes a job of the sweep's array, in one transaction.

Owns what is submitted and as whom. Knows neither when a trial begins nor what becomes of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from trackyard.access.principal import Principal, Role
from trackyard.access.sealing import Seal
from trackyard.access.standing import standing
from trackyard.core.errors import Denied
from trackyard.queue.specification import JobRequest, JobSpec, check
from trackyard.queue.submit.submission import add_member
from trackyard.queue.submit.variables import sealed
from trackyard.store.database import ReadConnection, Tx
from trackyard.sweeps import records
from trackyard.sweeps.records import SweepRow
from trackyard.sweeps.space import Point
from trackyard.sweeps.wishes import applied, words
from trackyard.tracking.metrics.curves import add_params
from trackyard.tracking.names import Names

#: Tags on the run of each trial.
SWEEP_TAG, TRIAL_TAG = "yard.sweep", "yard.trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrial:
    """A trial about to begin."""

    number: int
    point: Point
    attributes: dict[str, Any]
    bracket: int
    #: the trial whose checkpoint it is to begin with
    parent: int | None = None

    def prepare(self, sweep: SweepRow, seal: Seal | None) -> tuple[JobRequest, JobSpec]:
        """Return what is submitted, its variables sealed; takes longer than the loop may."""
        spec = sweep.asks
        wish = applied(open_wish(sweep, seal), spec, self.point)
        wish = msgspec.structs.replace(
            wish,
            name=sweep.name,
            array=f"0-{self.number}%{spec.slots}",
            hold=self.parent is not None,
        )
        job = check(wish)
        # Tags and variables of the platform's own are added behind the check of the user's.
        tags = {**wish.tags, SWEEP_TAG: sweep.sweep_id, TRIAL_TAG: str(self.number)}
        wish = msgspec.structs.replace(wish, tags=tags)
        if spec.stop.method == "pbt":
            job = msgspec.structs.replace(job, env={**job.env, "YARD_CHECKPOINT_UPLOAD": "run"})
        if seal is not None and job.env:
            job = sealed(seal, job, sweep.team_id)
        return wish, job


def seal_wish(wish: JobRequest, seal: Seal | None, team_id: int) -> tuple[str, str]:
    """Return a wish as it may be stored, and its variables sealed apart."""
    if seal is None or not wish.env:
        return records.encode(wish), ""
    text = seal.close(records.encode(wish.env), purpose=_purpose(team_id))
    return records.encode(msgspec.structs.replace(wish, env={})), text


def open_wish(sweep: SweepRow, seal: Seal | None) -> JobRequest:
    """Return what a sweep submits, with its variables."""
    if not sweep.sealed or seal is None:
        return sweep.wish
    text = seal.open(sweep.sealed, purpose=_purpose(sweep.team_id))
    return msgspec.structs.replace(sweep.wish, env=msgspec.json.decode(text))


def _purpose(team_id: int) -> str:
    return f"sweep:{team_id}"


def owner_of(reader: ReadConnection | Tx, sweep: SweepRow) -> Principal:
    """Return who made a sweep, with the rights they have now."""
    found = standing(
        reader,
        user_id=sweep.user_id,
        team_id=sweep.team_id,
        at_most=Role[sweep.asks.role],
    )
    if found is None or not found.may(Role.member):
        raise Denied(
            f"{sweep.user_name} may not submit jobs in this team any more: let somebody else of"
            " the team create the sweep again"
        )
    return found


def begin(
    tx: Tx, names: Names, sweep: SweepRow, new: NewTrial, ready: tuple[JobRequest, JobSpec]
) -> None:
    """Queue the job of a trial and write the trial down."""
    wish, spec = ready
    owner = owner_of(tx, sweep)
    job = add_member(tx, names, owner, wish, spec, array=sweep.array_id, index=new.number)
    if sweep.asks.values_as == "params":
        log_params(tx, names, sweep, job.run_uuid, new.point)
    records.insert(
        tx,
        "sweep_trials",
        sweep=sweep.id,
        number=new.number,
        job=job.id,
        state=records.LIVE,
        params=records.encode(new.point),
        attributes=records.encode(new.attributes),
        bracket=new.bracket,
        rungs="{}",
        curve="[]",
        parent=new.parent,
        sentence="",
        gpu_seconds=0.0,
        created_ms=tx.now_ms,
    )
    records.change_sweep(tx, sweep.id, sentence="")


def log_params(tx: Tx, names: Names, sweep: SweepRow, run_id: str, point: Point) -> None:
    """Log what was chosen on the trial's run, as far as its script did not."""
    owner = Principal(
        name=sweep.user_name,
        user_id=sweep.user_id,
        team_id=sweep.team_id,
        team="",
        default_experiment=0,
        role=Role.member,
    )
    add_params(tx, names, owner, run_id, {name: words(value) for name, value in point.items()})
