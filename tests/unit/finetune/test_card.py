"""Model cards."""

from trackyard.finetune.card import render, thin
from trackyard.finetune.recipe import parse


def test_a_card_holds_facts_curve_evaluation_and_recipe() -> None:
    """And says which library loads the model."""
    recipe = parse({"model": "base/model", "register": "mine"})
    text = render(
        recipe, facts={"rows": 9}, curve=[(1, 3.0), (2, 2.5)], evaluation={"eval_loss": 2.25}
    )
    assert "base_model: base/model" in text
    assert "library_name: peft" in text
    assert "| rows | 9 |" in text
    assert "| 2 | 2.5000 |" in text
    assert "| eval_loss | 2.2500 |" in text
    assert "method: lora" in text


def test_a_long_curve_keeps_its_ends() -> None:
    """Twenty points are enough for a card."""
    points = thin([(step, 1.0) for step in range(1000)], 20)
    assert len(points) == 20
    assert (points[0][0], points[-1][0]) == (0, 999)
