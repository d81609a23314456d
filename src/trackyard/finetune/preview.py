"""What the model will see: sequences as they are tokenised, masked and packed.

Owns choosing and taking apart samples; colours are the command's. Needs a tokenizer, no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackyard.finetune.data.prepared import Prepared, prepare
from trackyard.finetune.data.stream import SequenceStream
from trackyard.finetune.locate import load_tokenizer, model_folder
from trackyard.finetune.recipe import Recipe


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Text whose tokens are all learned, or all not."""

    text: str
    learned: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class RecipePreview:
    """A recipe's data, looked at."""

    rows: int
    truncated: int
    sequences: int
    tokens: int
    learned: int
    #: part of the sequences' tokens that is padding
    padding: float
    #: for each sample its rows, each in pieces
    samples: list[list[list[TextPiece]]]

    def json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "rows": self.rows,
            "truncated": self.truncated,
            "sequences": self.sequences,
            "tokens": self.tokens,
            "learned": self.learned,
            "padding": round(self.padding, 4),
            "samples": [
                [[[one.text, one.learned, one.tokens] for one in row] for row in sample]
                for sample in self.samples
            ],
        }


def look(recipe: Recipe, *, count: int = 10, cache: Path | None = None) -> RecipePreview:
    """Tokenise a recipe's data and return the first sequences it is trained on."""
    tokenizer = load_tokenizer(model_folder(recipe.model))
    data = prepare(recipe.data, recipe.data.train, tokenizer, seq=recipe.seq, cache=cache)
    stream = SequenceStream(
        data,
        seq=recipe.seq,
        packing=recipe.packing,
        seed=recipe.seed,
        shuffle=recipe.data.shuffle,
    )
    order = stream.epoch(0)
    tokens, _ = stream.lengths(order)
    room = len(order) * recipe.seq
    return RecipePreview(
        rows=len(data),
        truncated=data.truncated,
        sequences=len(order),
        tokens=tokens,
        learned=stream.learned(order),
        padding=1 - tokens / room if recipe.packing else 0.0,
        samples=[[_pieces(data, row, tokenizer) for row in one] for one in order[:count]],
    )


def _pieces(data: Prepared, row: int, tokenizer: Any) -> list[TextPiece]:
    words, learned = data.row(row)
    found, start = [], 0
    for at in range(1, len(words) + 1):
        if at == len(words) or learned[at] != learned[start]:
            text = tokenizer.decode(words[start:at].tolist())
            found.append(TextPiece(text, bool(learned[start]), at - start))
            start = at
    return found
