"""Makes the tiny model and its rows in a folder: what the tests of the queue train."""

import sys
from pathlib import Path

import tiny

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    tiny.make_model(folder / "base")
    tiny.make_data(folder / "rows.jsonl")
