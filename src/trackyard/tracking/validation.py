"""MLflow's limits on names and values, with MLflow's messages. Pure."""

from __future__ import annotations

import posixpath
import re

from trackyard.core.errors import InvalidInput
from trackyard.core.ids import has_controls
from trackyard.core.spelling import has_hidden, mixes_alphabets
from trackyard.core.strict_json import check_text

MAX_KEY = 250
MAX_PARAM = 6000
MAX_TAG = 8000
MAX_EXPERIMENT_TAG = 5000
MAX_EXPERIMENT_TAG_V3 = 20000
MAX_RUN_NAME = 250
MAX_EXPERIMENT_NAME = 500
MAX_METRICS_PER_BATCH = 1000
MAX_PARAMS_PER_BATCH = 100
MAX_TAGS_PER_BATCH = 100
MAX_ENTITIES_PER_BATCH = 1000
LARGEST = 1.7976931348623157e308

_NAME = re.compile(r"[/\w.\- :]*\Z")
_RULE = (
    "Names may only contain alphanumerics, underscores (_), dashes (-), periods (.), spaces ( ),"
    " colon(:) and slashes (/)."
)
#: Names seen to be fine; ingest asks here before it runs the regular expression.
_known_good: set[str] = set()


def is_known_name(name: str) -> bool:
    """Tell whether a name was checked before and found fine."""
    return name in _known_good


def check_name(name: str, path: str) -> str:
    """Refuse a metric, parameter or tag name that MLflow would refuse."""
    if name in _known_good:
        return name
    if name == "":
        raise InvalidInput(f"Missing value for required parameter '{path}'.")
    if len(name) > MAX_KEY:
        raise InvalidInput(
            f"'{path}' exceeds the maximum length of {MAX_KEY} characters: got {len(name)}"
            f" characters for {name[:20]!r}…"
        )
    if _NAME.match(name) is None:
        raise InvalidInput(f"Invalid value {name!r} for parameter '{path}' supplied: {_RULE}")
    if _escapes(name):
        raise InvalidInput(
            f"Invalid value {name!r} for parameter '{path}' supplied: Names may be treated as"
            f" files"
            " in certain cases, and must not resolve to other names when treated as such. This"
            f" name would resolve to {posixpath.normpath(name)!r}"
        )
    if len(_known_good) > 100_000:
        _known_good.clear()
    _known_good.add(name)
    return name


def _escapes(name: str) -> bool:
    normal = posixpath.normpath(name)
    return normal != name or normal == "." or normal.startswith(("..", "/"))


def clip(value: str, limit: int) -> str:
    """Cut a value to its limit; MLflow truncates long values rather than refuse them."""
    check_text(value)
    return value if len(value) <= limit else value[:limit]


def check_run_name(name: str) -> str:
    """Refuse a run name over its limit."""
    if len(name) > MAX_RUN_NAME:
        raise InvalidInput(
            f"Run name exceeds the maximum length of {MAX_RUN_NAME} characters: got {len(name)}"
        )
    return name


def check_experiment_name(name: str | None) -> str:
    """Refuse an experiment name that is empty or over its limit."""
    if name is None or name == "":
        raise InvalidInput("Missing value for required parameter 'name'.")
    if len(name) > MAX_EXPERIMENT_NAME:
        raise InvalidInput(
            f"'name' exceeds the maximum length of {MAX_EXPERIMENT_NAME} characters: got"
            f" {len(name)}"
        )
    if has_controls(name):
        raise InvalidInput("the experiment name holds control characters; leave them out")
    if has_hidden(name):
        raise InvalidInput("the experiment name holds characters that nobody sees; leave them out")
    if mixes_alphabets(name):
        raise InvalidInput(
            "a word of the experiment name mixes alphabets that look alike; use one of them"
        )
    return name


def number(value: object, path: str) -> float:
    """Read a metric's value: a number, or its text form; infinities become the largest double."""
    if isinstance(value, str):
        text = value
        try:
            value = float(text)
        except ValueError:
            raise InvalidInput(
                f"Invalid value {text[:80]!r} for parameter '{path}' supplied: the value of a"
                " metric must be a number"
            ) from None
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, int | float):
        raise InvalidInput(
            f"Invalid value {value!r} for parameter '{path}' supplied: the value of a metric must"
            " be a number"
        )
    try:
        real = float(value)
    except OverflowError:
        return LARGEST if value > 0 else -LARGEST
    if real > LARGEST:
        return LARGEST
    if real < -LARGEST:
        return -LARGEST
    return real


def integer(value: object, path: str) -> int:
    """Read a 64-bit integer that may have come as text."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        shown = f'"{value[:80]}"' if isinstance(value, str) else str(value)[:80]
        raise InvalidInput(
            f"Invalid value {shown} for parameter '{path}' supplied: an integer is needed"
        )
    return value
