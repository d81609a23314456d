"""Traces small models and real ones on fake tensors; prints peaks beside the closed form's.

Run in the environment that trains. One JSON line a case; torch is imported once for all.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from trackyard.finetune.planning import datasize, memory
from trackyard.finetune.planning.gpus import GIB
from trackyard.finetune.planning.traces import Traces
from trackyard.finetune.setup import TrainingSetup
from trackyard.finetune.shapes import BUILT_IN


def main() -> None:
    cases: list[dict[str, Any]] = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        traces = Traces(Path(folder))
        for case in cases:
            shape, setup = BUILT_IN[case["model"]], TrainingSetup.from_json(case["setup"])
            traced = traces(shape, setup)
            closed = memory.peak(shape, setup)
            print(
                json.dumps(
                    {
                        "trace_gib": None if traced is None else traced.total / GIB,
                        "closed_gib": closed.total / GIB,
                        "parts": None if traced is None else traced.json(),
                        "made": traces.made,
                    }
                ),
                flush=True,
            )
        again = Traces(Path(folder))
        again(BUILT_IN[cases[0]["model"]], TrainingSetup.from_json(cases[0]["setup"]))
        kept = {"made_again": again.made, "files": len(list(Path(folder).iterdir()))}
    print(json.dumps(kept | {"data": counted()}))


def counted() -> dict[str, Any]:
    """Rows and tokens of a small set, by a tokenizer of two words a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.save(str(Path(folder) / "tokenizer.json"))
        rows = Path(folder) / "rows.jsonl"
        rows.write_text("".join(json.dumps({"text": "a " * count}) + "\n" for count in (3, 5, 40)))
        return datasize.measure(str(rows), folder, 16).json()


if __name__ == "__main__":
    main()
