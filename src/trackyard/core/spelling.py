"""Names that pass for others: characters nobody sees, and letters of one script that look like
those of another. Pure. Meant for names that people choose things by, such as a model to deploy.
"""

from __future__ import annotations

import unicodedata

#: Characters that show nothing though Unicode counts them as letters, marks or symbols.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_HIDDEN = frozenset(("Cf", "Co", "Cn"))
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


def has_hidden(name: str) -> bool:
    """Tell whether a name holds characters that nobody sees."""
    if name.isascii():
        return False
    return any(
        char in _BLANK or unicodedata.category(char) in _HIDDEN or _is_selector(char)
        for char in name
    )


def passes_for(name: str) -> str | None:
    """Return the Latin spelling a name could be taken for, or None."""
    if name.isascii():
        return None
    letters = [char for char in name if char.isalpha()]
    scripts = {_script(char) for char in letters} & _ALIKE
    is_drawn_latin = all(char in _TWINS for char in letters) and bool(letters)
    if len(scripts) > 1 or is_drawn_latin:
        return "".join(_TWINS.get(char, char) for char in name)
    return None


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _is_selector(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
