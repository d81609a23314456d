"""The model card: what a model is, written beside it for people and for the hub.

Owns the text. Pure: facts come in, Markdown goes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trackyard.finetune.recipe import Recipe


def render(
    recipe: Recipe,
    *,
    facts: Mapping[str, Any],
    curve: Sequence[tuple[int, float]],
    evaluation: Mapping[str, float],
) -> str:
    """Return the card of a trained model."""
    kind = "LoRA adapter" if recipe.setup().is_adapter else "model"
    name = recipe.register or recipe.name or recipe.output
    lines = [
        "---",
        f"base_model: {recipe.model}",
        "library_name: " + ("peft" if recipe.setup().is_adapter else "transformers"),
        "pipeline_tag: text-generation",
        "tags: [trackyard, fine-tuned]",
        "---",
        f"# {name}",
        "",
        f"A {kind} fine-tuned from `{recipe.model}` ({recipe.method}, {recipe.precision}).",
        "",
        "## Training",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in facts.items()),
        "",
        "## Loss",
        "",
        "| step | loss |",
        "|---|---|",
        *(f"| {step} | {loss:.4f} |" for step, loss in thin(curve, 20)),
        "",
    ]
    if evaluation:
        lines += ["## Evaluation", "", "| | |", "|---|---|"]
        lines += [f"| {key} | {value:.4f} |" for key, value in evaluation.items()]
        lines.append("")
    lines += ["## Recipe", "", "```yaml", recipe.yaml().rstrip(), "```", ""]
    return "\n".join(lines)


def thin(curve: Sequence[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """Return at most so many points of a curve, its first and last among them."""
    if len(curve) <= most:
        return list(curve)
    last = len(curve) - 1
    return [curve[round(at * last / (most - 1))] for at in range(most)]
