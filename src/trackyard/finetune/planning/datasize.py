"""How much data there is: rows and tokens, counted with the model's own tokenizer where that is on
disk and the `tokenizers` library is installed, else estimated from the characters, which is said.

Owns the count. Reads rows as training does (data/rows.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackyard.finetune.data import rows
from trackyard.finetune.recipe import DataPart
from trackyard.finetune.shapes import cached_config

#: Characters of a token in English prose, where no tokenizer is there to ask.
CHARACTERS_A_TOKEN = 4.0
#: Rows that are tokenised; more are taken to be like them.
SAMPLE = 2000


@dataclass(frozen=True, slots=True)
class DataSize:
    """Rows and tokens of a data set, rows cut to the sequence length."""

    rows: int
    tokens: int
    mean_length: float
    longest: int
    #: whether tokens were counted with the model's tokenizer
    is_counted: bool

    def padded_tokens(self, seq: int, *, packed: bool) -> int:
        """Return the tokens that are computed in one epoch, padding included."""
        return -(-self.tokens // seq) * seq if packed else self.rows * min(seq, self.longest)

    def json(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "rows": self.rows,
            "tokens": self.tokens,
            "mean_length": round(self.mean_length, 1),
            "longest": self.longest,
            "counted": self.is_counted,
        }


def measure(source: str, model: str, seq: int) -> DataSize:
    """Count the rows and tokens of a source for a model."""
    length = _tokenizer(model)
    count, lengths, characters, sampled = 0, [], 0, 0
    for row in rows.read(DataPart(train=source), source):
        text = row.text + "\n".join(turn.text for turn in row.turns)
        count += 1
        characters += len(text)
        if length is None:
            lengths.append(min(seq, round(len(text) / CHARACTERS_A_TOKEN) + 1))
        elif len(lengths) < SAMPLE:
            sampled += len(text)
            lengths.append(min(seq, length(text)))
    if not count:
        return DataSize(0, 0, 0.0, 0, length is not None)
    mean = sum(lengths) / len(lengths)
    if length is not None and count > len(lengths):
        mean *= (characters / count) / max(1.0, sampled / len(lengths))
    mean = min(float(seq), mean)
    return DataSize(count, round(mean * count), mean, max(lengths), length is not None)


def _tokenizer(model: str) -> Callable[[str], int] | None:
    """Return what counts the tokens of a text, or None where no tokenizer can be had."""
    path = Path(model).expanduser() / "tokenizer.json"
    if not path.is_file():
        config = cached_config(model)
        path = config.parent / "tokenizer.json" if config is not None else path
    if not path.is_file():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    tokenizer = Tokenizer.from_file(str(path))
    return lambda text: len(tokenizer.encode(text).ids)
