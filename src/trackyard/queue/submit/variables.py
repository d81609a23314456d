"""Values of a job's variables at rest: sealed in its spec, opened when an attempt starts.

Owns what of a spec is sealed, and bound to which team. Names stay readable, and beside each four
digits of a hash of its value, which tell most changes and too little to guess by. Specs that were
stored before, or where there is no key, hold their values as they are. Counts which keys the jobs
that have not ended need.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from trackyard.access.sealing import Seal, key_of
from trackyard.queue.specification import JobSpec, RaySpec
from trackyard.store.database import ReadConnection


class _Values(msgspec.Struct):
    env: dict[str, str]
    #: `env_vars` of a Ray client's runtime environment
    ray: dict[str, str]


def sealed(seal: Seal, spec: JobSpec, team_id: int) -> JobSpec:
    """Return a spec as it may be stored."""
    ray = _ray_variables(spec.ray)
    if spec.sealed or not (spec.env or ray):
        return spec
    text = msgspec.json.encode(_Values(spec.env, ray)).decode()
    closed = seal.close(text, purpose=_purpose(team_id))
    return _with(spec, digests(spec.env), digests(ray), closed)


def opened(seal: Seal, spec: JobSpec, team_id: int) -> JobSpec:
    """Return a stored spec with its values, for an attempt that starts."""
    if not spec.sealed:
        return spec
    text = seal.open(spec.sealed, purpose=_purpose(team_id))
    values = msgspec.json.decode(text, type=_Values)
    return _with(spec, values.env, values.ray, "")


def digests(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables with enough of each value to see most changes."""
    return {
        name: hashlib.sha256(value.encode()).hexdigest()[:4]
        for name, value in sorted(variables.items())
    }


def _with(spec: JobSpec, env: dict[str, str], variables: dict[str, str], text: str) -> JobSpec:
    ray = spec.ray
    if ray is not None and variables:
        ray = msgspec.structs.replace(ray, runtime_env={**ray.runtime_env, "env_vars": variables})
    return msgspec.structs.replace(spec, env=env, ray=ray, sealed=text)


def _ray_variables(ray: RaySpec | None) -> dict[str, str]:
    found: Any = ray.runtime_env.get("env_vars") if ray is not None else None
    return dict(found) if isinstance(found, dict) else {}


def _purpose(team_id: int) -> str:
    return f"env:{team_id}"


def keys_of_jobs(reader: ReadConnection) -> Counter[str]:
    """Count the submissions that have not ended by the name of the key that sealed them."""
    rows = reader.all(
        "SELECT s.spec FROM job_specs s WHERE s.spec LIKE ? AND EXISTS (SELECT 1 FROM jobs j"
        " WHERE j.spec_id = s.id AND j.ended_ms IS NULL)",
        ('%"sealed":"1.%',),
    )
    return Counter(key_of(row[0].partition('"sealed":"')[2].partition('"')[0]) for row in rows)
