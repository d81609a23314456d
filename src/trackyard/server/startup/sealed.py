"""What a start tells of sealed values: those whose key is not here, or that none can be sealed.

Owns the sentences. A server without a key goes on: whatever needs the key says so when it is used.
"""

from __future__ import annotations

from collections import Counter

from trackyard.access.sealing import Seal, key_of, lacking
from trackyard.server.settings import Settings
from trackyard.store.database import ReadConnection


def key_warnings(settings: Settings, seal: Seal, reader: ReadConnection) -> list[str]:
    """Return what an admin should know about the key of secrets, one sentence each."""
    found = [_missing(settings, reader)]
    if seal.lacks_key():
        found.append(lacking(seal.expected or "", seal.path))
    return [one for one in found if one]


def _missing(settings: Settings, reader: ReadConnection) -> str:
    secrets = Counter(key_of(row[0]) for row in reader.all("SELECT sealed FROM secrets"))
    jobs: Counter[str] = Counter()
    rows = reader.all(
        "SELECT s.spec FROM job_specs s WHERE s.spec LIKE ? AND EXISTS (SELECT 1 FROM jobs j"
        " WHERE j.spec_id = s.id AND j.ended_ms IS NULL)",
        ('%"sealed":"1.%',),
    )
    for (spec,) in rows:
        jobs[key_of(spec.partition('"sealed":"')[2].partition('"')[0])] += 1
    path = settings.secrets_key_path
    missing = Seal(path).missing([*secrets, *jobs])
    if not missing:
        return ""
    told = sum(secrets[name] for name in missing), sum(jobs[name] for name in missing)
    return (
        f"{told[0]} secrets and the variables of {told[1]} submissions are sealed with the key"
        f" {', '.join(missing)}, which is not in {path}: bring back the file `secrets.key` of the"
        " home that they come from, or store the secrets anew with `yard secret set` and submit"
        " those jobs again"
    )
