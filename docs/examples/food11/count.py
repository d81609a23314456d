"""Stands in for a training script: reads FOOD11_DATA_DIR as the original does, counts pictures."""

import os
from pathlib import Path

root = Path(os.environ.get("FOOD11_DATA_DIR", "Food-11"))
for folder in ("training", "validation", "evaluation"):
    classes = sorted(path for path in (root / folder).iterdir() if path.is_dir())
    files = sum(1 for one in classes for _ in one.iterdir())
    print(f"{folder}: {len(classes)} classes, {files} pictures")
