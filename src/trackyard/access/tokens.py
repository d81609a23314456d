"""Secrets: how tokens look, and how they are kept. Only digests are ever stored."""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib

TOKEN = re.compile(r"yard_[a-z0-9]{10}_[A-Za-z0-9_-]{43}[0-9a-f]{8}\Z")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def new_token() -> tuple[str, str]:
    """Return a token's public id and its full text, which is shown once."""
    public = "".join(secrets.choice(_ALPHABET) for _ in range(10))
    body = f"yard_{public}_{secrets.token_urlsafe(32)}"
    return public, f"{body}{zlib.crc32(body.encode()):08x}"


def well_formed(token: str) -> bool:
    """Tell a mistyped or foreign token from one that could be ours, without asking the
    database.
    """
    if TOKEN.match(token) is None:
        return False
    return token[-8:] == f"{zlib.crc32(token[:-8].encode()):08x}"


def new_secret() -> str:
    """Return a random secret for sessions, sign-in codes and CSRF."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def redact(text: str) -> str:
    """Replace anything that looks like a token by its public id."""
    return re.sub(r"(yard_[a-z0-9]{10})_[A-Za-z0-9_-]{20,}", r"\1_…", text)
