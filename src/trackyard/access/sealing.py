"""Sealing of values at rest: AES-256-GCM under a key that lies outside the database.

Owns the key file, made when the first value is sealed, and the shape of a sealed value. Each value
is bound to what it is for, so that none can be put in another's place. Knows no table.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trackyard.core.errors import InternalFault, SetupError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12
_FORM = "1"


class Seal:
    """Seals and opens values with the key in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: name of the only key that may seal, where several servers share a database
        self.expected: str | None = None
        self._key: bytes | None = None

    def key_name(self) -> str:
        """Return the name of the key in the file, which is made if there is none."""
        return _name(self._load() or self._make())

    def lacks_key(self) -> bool:
        """Say whether another server of the database has the key, and this one does not."""
        return bool(self.expected and self.missing([self.expected]))

    def close(self, value: str, *, purpose: str) -> str:
        """Return a value as it may be stored."""
        if self.lacks_key():
            raise InternalFault(lacking(self.expected or "", self.path))
        key = self._load() or self._make()
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = _cipher(key).encrypt(nonce, value.encode(), purpose.encode())
        return f"{_FORM}.{_name(key)}.{base64.b64encode(nonce + sealed).decode()}"

    def open(self, sealed: str, *, purpose: str) -> str:
        """Return a sealed value's text, or say which key is missing."""
        from cryptography.exceptions import InvalidTag

        form, _, rest = sealed.partition(".")
        name, _, packed = rest.partition(".")
        key = self._load()
        if form != _FORM or key is None or name != _name(key):
            raise InternalFault(
                f"the key of the stored secrets ({name}) is not in {self.path}: bring that file"
                " back from where it was kept, or set the secrets anew"
            )
        try:
            raw = base64.b64decode(packed, validate=True)
            found = _cipher(key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], purpose.encode())
        except (binascii.Error, ValueError, InvalidTag) as fault:
            raise InternalFault("a stored secret is damaged; set it anew") from fault
        return found.decode()

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return those keys, by name, that are not in the file."""
        key = self._load()
        return sorted({name for name in names if key is None or name != _name(key)})

    def _load(self) -> bytes | None:
        if self._key is None:
            try:
                key = bytes.fromhex(self.path.read_text().strip())
            except FileNotFoundError:
                return None
            except (OSError, ValueError) as fault:
                raise InternalFault(f"{self.path} cannot be read as a key: {fault}") from fault
            if len(key) != KEY_BYTES:
                raise InternalFault(f"{self.path} holds no key of {KEY_BYTES} bytes")
            self._key = key
        return self._key

    def _make(self) -> bytes:
        """Write a new key, unless another server was quicker."""
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"{secrets.token_hex(KEY_BYTES)}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(beside, self.path)
        except FileExistsError:
            pass
        finally:
            beside.unlink()
        key = self._load()
        if key is None:
            raise SetupError(f"the key file {self.path} cannot be made")
        return key


def lacking(name: str, path: Path) -> str:
    """Tell an admin how a server gets the key that it has to share."""
    return (
        f"this server cannot seal values: its database's key is {name}, which is not in {path}."
        " Copy `secrets.key` from the home of another server of this database to there, or name"
        " one file for all of them by the setting secrets_key; then start this server again"
    )


def key_of(sealed: str) -> str:
    """Return the name of the key that a value was sealed with."""
    return sealed.split(".", 2)[1] if sealed.count(".") >= 2 else ""


def _name(key: bytes) -> str:
    """Return what tells keys apart and nothing of the key."""
    return hashlib.sha256(b"trackyard key name" + key).hexdigest()[:8]


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
