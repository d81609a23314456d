"""Signs of trouble in the losses."""

import math

from trackyard.finetune.health import LossHealth
from trackyard.finetune.recipe import HealthPart


def calm(health: LossHealth, count: int = 20) -> None:
    for step in range(count):
        assert health.judge(step, 2.0 - step * 0.01 + 0.02 * (step % 3)) is None


def test_a_falling_curve_is_no_trouble() -> None:
    """Noise and slope are no spikes."""
    calm(LossHealth(HealthPart()), 100)


def test_a_jump_is_a_spike_and_does_not_join_the_window() -> None:
    """A second jump is judged by the calm losses before the first."""
    health = LossHealth(HealthPart())
    calm(health)
    for step in (20, 21):
        sign = health.judge(step, 6.0)
        assert sign is not None
        assert sign.kind == "spike"
        assert "6.0000" in sign.sentence
    assert health.judge(22, 1.8) is None


def test_nothing_is_a_spike_at_the_start() -> None:
    """The first losses are all over the place."""
    health = LossHealth(HealthPart())
    assert all(health.judge(step, loss) is None for step, loss in enumerate([9.0, 2.0, 8.0, 3.0]))


def test_what_is_no_number_is_told() -> None:
    """Loss and gradient norm."""
    health = LossHealth(HealthPart())
    assert health.judge(0, math.nan).kind == "nan"  # type: ignore[union-attr]
    assert health.judge(1, 1.0, norm=math.inf).kind == "nan"  # type: ignore[union-attr]


def test_a_collapsed_scale_is_told() -> None:
    """Below one, fp16 gradients vanish."""
    health = LossHealth(HealthPart())
    assert health.judge_scale(3, 0.5).kind == "scale"  # type: ignore[union-attr]
    assert health.judge_scale(3, 1024.0) is None


def test_a_restored_one_judges_alike() -> None:
    """The window is part of the state."""
    first, second = LossHealth(HealthPart()), LossHealth(HealthPart())
    calm(first)
    second.restore(first.state())
    assert second.judge(20, 6.0) == first.judge(20, 6.0)
