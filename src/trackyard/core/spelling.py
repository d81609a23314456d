"""When two names look alike to people. Pure; owns no name and no rule of what one may be."""

from __future__ import annotations

import unicodedata
from urllib.parse import unquote

#: Alphabets whose letters pass for each other.
_ALIKE = frozenset(("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"))
#: Joiners that some scripts and emoji need; all else of their kind has no use in a name.
_JOINERS = frozenset("\u200c\u200d")


def plain(name: str) -> str:
    """Return the spelling that a name could pass for: decoded, composed, without odd forms."""
    kept = "".join(char for char in unquote(name) if unicodedata.category(char) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", kept).split())


def has_hidden(name: str) -> bool:
    """Tell whether a name holds characters that nobody sees, such as those that turn text."""
    return not name.isascii() and any(
        unicodedata.category(char) in ("Cf", "Co") and char not in _JOINERS for char in name
    )


def mixes_alphabets(name: str) -> bool:
    """Tell whether a word holds letters of alphabets that look alike, as a disguise does."""
    if name.isascii():
        return False
    words = "".join(char if char.isalpha() else " " for char in name).split()
    return any(len(_alphabets(word) & _ALIKE) > 1 for word in words)


def _alphabets(word: str) -> set[str]:
    return {unicodedata.name(char, "").partition(" ")[0] for char in word}
