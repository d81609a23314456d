"""Names that pass for others: characters nobody sees, letters of one script that look like those
of another, other spellings of one text. Pure; owns no name and no rule of what one may be.
"""

from __future__ import annotations

import unicodedata
from urllib.parse import unquote

#: Characters that show nothing though Unicode counts them as letters, marks or symbols.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_HIDDEN = frozenset(("Cf", "Co", "Cn"))
#: Joiners that some scripts and emoji need; all else of their kind has no use in a name.
_JOINERS = frozenset("\u200c\u200d")
#: Scripts with letters that look like Latin ones; no word mixes two of them.
_ALIKE = frozenset(("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"))
#: Letters of other scripts that are drawn as a Latin letter.
_TWINS = dict(
    zip(
        "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
        "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0408\u0405"
        "\u03bf\u03bd\u03c1\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1"
        "\u03a4\u03a5\u03a7",
        "aeopcyxijshdqwABEKMHOPCTXIJSovpABEZHIKMNOPTYX",
        strict=True,
    )
)


def plain(name: str) -> str:
    """Return the spelling that a name could pass for: decoded, composed, without odd forms."""
    if name.isascii() and name.isprintable() and "%" not in name and "  " not in name:
        return name.strip()
    kept = "".join(char for char in unquote(name) if unicodedata.category(char) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", kept).split())


def has_hidden(name: str) -> bool:
    """Tell whether a name holds characters that nobody sees, such as those that turn text."""
    return not name.isascii() and any(_is_hidden(name, at) for at in range(len(name)))


def mixes_alphabets(name: str) -> bool:
    """Tell whether a word holds letters of alphabets that look alike, as a disguise does."""
    return not name.isascii() and any(len(_scripts(word)) > 1 for word in _words(name))


def passes_for(name: str) -> str | None:
    """Return the Latin spelling a name could be taken for, or None."""
    if name.isascii():
        return None
    words = _words(name)
    drawn = [word for word in words if all(char in _TWINS for char in word)]
    is_drawn_latin = drawn and (drawn == words or "LATIN" in _scripts(name))
    if is_drawn_latin or mixes_alphabets(name):
        return "".join(_TWINS.get(char, char) for char in name)
    return None


def _words(name: str) -> list[str]:
    return "".join(char if char.isalpha() else " " for char in name).split()


def _scripts(text: str) -> set[str]:
    """Return those alphabets of a text that look alike."""
    found = {unicodedata.name(char, "").partition(" ")[0] for char in text if char.isalpha()}
    return found & _ALIKE


def _is_hidden(name: str, at: int) -> bool:
    char = name[at]
    if char in _JOINERS:
        return not _joins(name[at - 1 : at], name[at + 1 : at + 2])
    return char in _BLANK or unicodedata.category(char) in _HIDDEN or _is_selector(char)


def _joins(before: str, after: str) -> bool:
    """Tell whether a joiner stands where it shows: between signs of scripts that are joined."""
    return all(one and not one.isascii() and not _scripts(one) for one in (before, after))


def _is_selector(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
