"""Addresses of files that other systems keep: a bucket, a file system, a hub. Owns telling them
from local paths and from addresses that step out of their folder. Pure: nothing is ever opened.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus, urlsplit

MAX_URI = 4096
#: Where clients may keep an experiment's files by themselves, unless the settings say otherwise.
STORAGE_SCHEMES = (
    "s3", "s3a", "s3n", "gs", "r2", "b2", "wasb", "wasbs", "abfs", "abfss", "azure", "dbfs",
    "hdfs", "viewfs", "oss", "sftp",
)  # fmt: skip

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: How often a client or a store might decode an address.
_DECODINGS = 10


def scheme_of(text: str) -> str:
    """Return an address's scheme in small letters; empty for a path, and for a drive's letter."""
    found = _SCHEME.match(text.strip())
    return found[1].lower() if found is not None and len(found[1]) > 1 else ""


def is_local(text: str) -> bool:
    """Tell whether an address is a path on whatever machine reads it."""
    return scheme_of(text) in ("", "file")


def is_plain(text: str) -> bool:
    """Tell whether an address says in any decoding where it leads: no steps up, nothing hidden."""
    if len(text) > MAX_URI or text != text.strip():
        return False
    for _ in range(_DECODINGS):
        if _CONTROL.search(text) or "\\" in text or _steps_out(text):
            return False
        decoded = unquote_plus(text, errors="replace")
        if decoded == text:
            return True
        text = decoded
    return False


def _steps_out(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return True
    segments = re.split(r"[/?#&=]", text)
    return ".." in segments or "." in parts.path.split("/")
