"""Cuts a filter or order text into tokens. Owns quoting and positions; knows no rule of keys.

A key is one token with its entity: ``metrics.loss``, ``params.`batch size` ``, ``"run name"``.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from trackyard.core.errors import InvalidInput

#: Longest filter or order text, in bytes.
TEXT_LIMIT = 8 * 1024

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
#: A bare key may hold dots, dashes and slashes; nothing here does arithmetic.
_WORD = re.compile(r"\w[\w./-]*")
_OPERATOR = re.compile(r"[<>=!~]+")
_SPACE = re.compile(r"\s*")
_PUNCTUATION = {"(": "(", ")": ")", ",": ","}


class TokenKind(Enum):
    """What a token is."""

    KEY = "a key"
    STRING = "a quoted string"
    NUMBER = "a number"
    OPERATOR = "an operator"
    PUNCTUATION = "a bracket or comma"
    END = "the end"


class SearchToken(NamedTuple):
    """A piece of the text, with what it says and where it stands."""

    kind: TokenKind
    #: as written
    text: str
    #: a string without its quotes; a key without its entity and quotes
    value: str
    #: the entity of a key, or None
    entity: str | None
    #: first character, counted from 1
    at: int
    #: how the string or the key was quoted: ' " ` or nothing
    quote: str


def check_text(text: str, what: str) -> None:
    """Refuse a text that is too long or that no database can hold."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as fault:
        raise InvalidInput(f"Invalid {what}: it holds characters that are not text") from fault
    if size > TEXT_LIMIT:
        raise InvalidInput(f"Invalid {what}: it has {size} bytes, at most {TEXT_LIMIT} are taken")
    if "\0" in text:
        raise InvalidInput(f"Invalid {what}: a zero byte at position {text.index(chr(0)) + 1}")


def tokens(text: str, what: str) -> list[SearchToken]:
    """Return the tokens of a text, the last one being its end."""
    found: list[SearchToken] = []
    at = _skip(text, 0)
    while at < len(text):
        token = _next(text, at, what)
        found.append(token)
        at = _skip(text, at + len(token.text))
    found.append(SearchToken(TokenKind.END, "", "", None, len(text) + 1, ""))
    return found


def snippet(text: str) -> str:
    """Shorten what a message quotes."""
    return text if len(text) <= 60 else text[:57] + "..."


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _next(text: str, at: int, what: str) -> SearchToken:
    char = text[at]
    if char == "'":
        raw, value = _quoted(text, at, what)
        return SearchToken(TokenKind.STRING, raw, value, None, at + 1, "'")
    if char in _PUNCTUATION:
        return SearchToken(TokenKind.PUNCTUATION, char, char, None, at + 1, "")
    operator = _OPERATOR.match(text, at)
    if operator:
        return SearchToken(TokenKind.OPERATOR, operator[0], operator[0], None, at + 1, "")
    number = _NUMBER.match(text, at)
    if number and not _WORD.match(text, number.end()):
        return SearchToken(TokenKind.NUMBER, number[0], number[0], None, at + 1, "")
    if char in '`"' or _WORD.match(text, at):
        return _key(text, at, what)
    raise InvalidInput(
        f"Invalid clause(s) in {what}: {snippet(text[at:])!r} at position {at + 1};"
        f" the character {char!r} has no meaning here (quote names with backticks, values with ')"
    )


def _key(text: str, at: int, what: str) -> SearchToken:
    """Read a key: `name`, `entity.name`, or either part in backticks or double quotes."""
    start = at
    entity: str | None = None
    if text[at] in '`"':
        quote = text[at]
        raw, value = _quoted(text, at, what)
        at += len(raw)
        if text[at : at + 1] != ".":
            # A double-quoted word may be a string value: the grammar decides by its place.
            return SearchToken(TokenKind.KEY, raw, value, None, start + 1, quote)
        entity, at = value, at + 1
        if text[at : at + 1] not in ("`", '"'):
            word = _WORD.match(text, at)
            name = word[0] if word else ""
            return SearchToken(
                TokenKind.KEY, text[start : at + len(name)], name, entity, start + 1, ""
            )
    else:
        word = _WORD.match(text, at)
        assert word is not None
        head, dot, name = word[0].partition(".")
        at = word.end()
        if not dot:
            return SearchToken(TokenKind.KEY, head, head, None, start + 1, "")
        entity = head
        if name or text[at : at + 1] not in ("`", '"'):
            return SearchToken(TokenKind.KEY, text[start:at], name, entity, start + 1, "")
    quote = text[at]
    raw, name = _quoted(text, at, what)
    return SearchToken(TokenKind.KEY, text[start : at + len(raw)], name, entity, start + 1, quote)


def _quoted(text: str, at: int, what: str) -> tuple[str, str]:
    """Read from a quote to its partner; a doubled quote stands for one."""
    quote = text[at]
    end = at + 1
    while True:
        end = text.find(quote, end)
        if end < 0:
            raise InvalidInput(
                f"Invalid clause(s) in {what}: {snippet(text[at:])!r} at position {at + 1};"
                f" the quote {quote} is never closed"
            )
        if text[end + 1 : end + 2] != quote:
            break
        end += 2
    return text[at : end + 1], text[at + 1 : end].replace(quote * 2, quote)
