"""What a start tells of sealed values: those whose key is not here, or that none can be sealed.

Owns the sentences. A server without a key goes on: whatever needs the key says so when it is used.
"""

from __future__ import annotations

from trackyard.access.sealing import Seal, lacking
from trackyard.access.secrets import keys_of_secrets
from trackyard.queue.submit.variables import keys_of_jobs
from trackyard.server.settings import Settings
from trackyard.store.database import ReadConnection


def key_warnings(settings: Settings, seal: Seal, reader: ReadConnection) -> list[str]:
    """Return what an admin should know about the key of secrets, one sentence each."""
    found = [_missing(settings, reader)]
    if seal.lacks_key():
        found.append(lacking(seal.expected or "", seal.path))
    return [one for one in found if one]


def _missing(settings: Settings, reader: ReadConnection) -> str:
    secrets, jobs = keys_of_secrets(reader), keys_of_jobs(reader)
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
