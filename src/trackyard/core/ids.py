"""Ids and names: how they are made and what they look like. Every id is checked against its
pattern before any use.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
import uuid

RUN_ID = re.compile(r"[a-f0-9]{32}\Z")
MODEL_ID = re.compile(r"m-[a-f0-9]{32}\Z")
TRACE_ID = re.compile(r"tr-[A-Za-z0-9_-]{1,60}\Z")
EXPERIMENT_ID = re.compile(r"[0-9]{1,18}\Z")
JOB_ID = re.compile(r"j[a-z0-9]{10}(-[0-9]{1,7})?\Z")
ATTEMPT_ID = re.compile(r"j[a-z0-9]{10}(-[0-9]{1,7})?-a[0-9]{1,6}\Z")
LEASE_ID = re.compile(r"l[a-z0-9]{10}\Z")
SWEEP_ID = re.compile(r"s[a-z0-9]{10}\Z")
REPORT_ID = re.compile(r"r[a-z0-9]{10}\Z")
NOTE_ID = re.compile(r"n[a-z0-9]{10}\Z")
LEASE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")
QUEUE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
TEAM_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,126}\Z")

#: Unicode's control characters, surrogates, and ends of lines and paragraphs
_CONTROLS = frozenset(("Cc", "Cs", "Zl", "Zp"))
#: without look-alikes, for ids that people read to each other
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_ADJECTIVES = (
    "able amber brave bright calm clever crisp dapper eager fair fleet gentle glad grand hardy "
    "honest keen kind lively loyal lucid mellow merry mild neat noble polite proud quick quiet "
    "rapid ready rugged serene sharp sleek smart solid spry steady stoic sunny swift tidy upbeat "
    "vivid warm wise witty zesty"
).split()
_NOUNS = (
    "ant auk bat bear bee boar carp cat cod colt crab crane crow deer dove duck eel elk finch fox "
    "frog gnu goat goose gull hare hawk hen heron horse ibex jay kite koala lark lion loon lynx "
    "mole moth mouse mule newt otter owl ox panda perch pony quail rat raven robin seal shad "
    "shrew sloth snail stag stork swan tern toad trout vole wasp whale wolf wren yak zebra"
).split()


def has_controls(name: str) -> bool:
    """Tell whether a name holds what none should: control characters or ends of lines."""
    return not name.isprintable() and any(unicodedata.category(c) in _CONTROLS for c in name)


def new_run_id() -> str:
    """Return a fresh run id: 32 hex digits."""
    return uuid.uuid4().hex


def new_model_id() -> str:
    """Return a fresh logged-model id in MLflow's form."""
    return f"m-{uuid.uuid4().hex}"


def new_trace_id() -> str:
    """Return a fresh trace id, as MLflow writes them."""
    return f"tr-{uuid.uuid4().hex}"


def new_experiment_id() -> int:
    """Return an experiment id nobody can guess: MLflow wants digits, so a random 59-bit number."""
    return 10**16 + secrets.randbelow(9 * 10**17)


def new_job_id() -> str:
    """Return a fresh job id; a member of an array adds its index, an attempt its number."""
    return "j" + "".join(secrets.choice(_ALPHABET) for _ in range(10))


def new_lease_id() -> str:
    """Return a fresh lease id."""
    return "l" + "".join(secrets.choice(_ALPHABET) for _ in range(10))


def new_sweep_id(key: str = "") -> str:
    """Return a fresh sweep id, or always the same one for a key that a client chose.

    The array of its jobs has the same letters after a `j`.
    """
    seed = hashlib.sha256(key.encode()).digest() if key else secrets.token_bytes(32)
    return "s" + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in seed[:10])


def new_note_id() -> str:
    """Return a fresh id of a note."""
    return "n" + "".join(secrets.choice(_ALPHABET) for _ in range(10))


def new_report_id() -> str:
    """Return a fresh report id."""
    return "r" + "".join(secrets.choice(_ALPHABET) for _ in range(10))


def new_name() -> str:
    """Return a run name of the form adjective-noun-number."""
    number = secrets.randbelow(1000)
    return f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_NOUNS)}-{number}"
