"""The grammar of artifact paths. Pure: text in, checked text out; knows no store.

A path is decoded exactly once, before it comes here. It is kept in a column and never opened, so a
hostile one has nothing to climb; it is refused all the same, in every spelling, because the tree
must also be safe on the disk of whoever downloads it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import unquote

from trackyard.core.errors import InvalidInput, NotFound
from trackyard.core.ids import EXPERIMENT_ID, MODEL_ID, RUN_ID, TRACE_ID

PATH_BYTES, SEGMENT_BYTES = 4096, 255
#: How often a name could be decoded by someone downstream; checked, never used.
_DECODINGS = 3

#: Separators of other systems, patterns, fragments, and what a lossy decoder left behind.
_FORBIDDEN = re.compile(r"[\\*?#\ufffd\u2028\u2029]")
_ASCII_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE_OR_SCHEME = re.compile(r"[A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]*:\Z")
_SEPARATOR = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactPlace:
    """What an `mlflow-artifacts` path names: an owner and a path below its root."""

    #: first segment: the experiment as the caller calls it
    experiment: str
    #: run uuid, logged-model or trace id
    owner: str
    #: path below the owner's root; empty for the root itself
    path: str


def check_path(text: str, *, is_stored: bool = True) -> str:
    """Return a path that names something below a root, or refuse it.

    With `is_stored` off, characters that no stored path holds pass: a client may have put them
    there, see `client_spelling`.
    """
    if not text:
        raise _invalid("it is empty")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _invalid("it is not valid Unicode") from None
    if size > PATH_BYTES:
        raise _invalid(f"it is longer than {PATH_BYTES} bytes")
    segments = text.split("/")
    if _DRIVE_OR_SCHEME.match(segments[0]):
        raise _invalid("it starts with a drive or a scheme")
    for segment in segments:
        _check_segment(segment)
    if is_stored and _FORBIDDEN.search(text):
        raise _invalid("it holds a character that is not allowed")
    return text


def check_folder(text: str | None, *, is_stored: bool = True) -> str:
    """Return the path of a folder to list: empty for the root, and a trailing slash is let go."""
    if not text:
        return ""
    return check_path(text.removesuffix("/"), is_stored=is_stored)


def client_spelling(path: str) -> str:
    """Return what stock clients make of a path they read in a listing, and then ask for.

    They decode percent signs until none is left to decode, which turns most of MLflow 2's image
    names into others; only control characters are written back as they were.
    """
    for _ in range(10):
        decoded = unquote(path, errors="replace")
        if decoded == path:
            break
        path = decoded
    return _ASCII_CONTROL.sub(lambda found: f"%{ord(found[0]):02x}", path)


def parse_place(text: str, *, is_stored: bool = True) -> ArtifactPlace:
    """Split `<experiment>/<run>/artifacts/<path>` and its siblings for models and traces."""
    check_path(text.removesuffix("/"), is_stored=is_stored)
    experiment, _, rest = text.partition("/")
    if rest.startswith("models/"):
        owner, _, tail = rest.removeprefix("models/").partition("/")
        is_known = MODEL_ID.match(owner)
    elif rest.startswith("traces/"):
        owner, _, tail = rest.removeprefix("traces/").partition("/")
        is_known = TRACE_ID.match(owner)
    else:
        owner, _, tail = rest.partition("/")
        is_known = RUN_ID.match(owner)
    root, slash, path = tail.partition("/")
    if not is_known or root != "artifacts" or EXPERIMENT_ID.match(experiment) is None:
        raise NotFound(
            "no such place for artifacts: paths have the form <experiment>/<run>/artifacts/<path>"
            " or <experiment>/models/<model>/artifacts/<path>"
        )
    if slash and path.endswith("/"):
        raise _invalid("it ends with a slash")
    if path:
        check_path(path, is_stored=is_stored)
    return ArtifactPlace(experiment=experiment, owner=owner, path=path)


def join_path(folder: str, name: str) -> str:
    """Return a checked path of a name within a folder."""
    return check_path(f"{folder}/{name}" if folder else name)


def file_name(path: str) -> str:
    """Return the last segment of a path, of whichever system it comes from."""
    return _SEPARATOR.split(path)[-1]


def ancestors(path: str) -> list[str]:
    """Return the folders above a path, nearest last."""
    pieces = path.split("/")[:-1]
    return ["/".join(pieces[: count + 1]) for count in range(len(pieces))]


def _check_segment(segment: str) -> None:
    if not segment.strip():
        raise _invalid("it has an empty segment")
    if len(segment.encode()) > SEGMENT_BYTES:
        raise _invalid(f"a segment is longer than {SEGMENT_BYTES} bytes")
    if segment.startswith(":"):
        raise _invalid("a segment starts with a colon")
    if any(unicodedata.category(char) == "Cc" for char in segment):
        raise _invalid("it holds a control character")
    spelling = segment
    for _ in range(_DECODINGS + 1):
        _check_spelling(spelling)
        decoded = unquote(spelling, errors="replace")
        if decoded == spelling:
            return
        spelling = decoded


def _check_spelling(text: str) -> None:
    """Refuse what some reader would take for a step out of the folder or for another root.

    No more than that: MLflow's image names hold `%17` and `%00`, which must stay text.
    """
    if not text.partition(";")[0].strip():
        raise _invalid("it has an empty segment")
    pieces = _SEPARATOR.split(unicodedata.normalize("NFKC", text))
    if len(pieces) > 1 and not pieces[0].partition(";")[0].strip():
        raise _invalid("it starts with a separator")
    if any(piece.partition(";")[0].strip() in (".", "..") for piece in pieces):
        raise _invalid("it steps out of its folder")


def _invalid(why: str) -> InvalidInput:
    """Return the refusal in MLflow's two words; what is wrong with the path goes beside them."""
    return InvalidInput("Invalid path", details={"reason": why})
