"""Signs of trouble in a run: a loss that is no number, a loss that jumps, a scale that collapses.

Owns what counts as trouble. Pure: it sees numbers and says what it thinks; the loop acts.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

from trackyard.finetune.recipe import HealthPart

#: a deviation of a normal distribution, in median absolute deviations
_ROBUST = 1.4826
#: losses needed before a jump can be told
_LEAST = 10
#: a jump is at least this part of the median, however calm the curve was
_LEAST_JUMP = 0.1
#: below this, fp16's scale no longer lifts gradients out of the smallest numbers
MIN_SCALE = 1.0


@dataclass(frozen=True, slots=True)
class HealthSign:
    """One thing that is wrong."""

    kind: Literal["nan", "spike", "scale"]
    step: int
    sentence: str


class LossHealth:
    """Watches the losses of one run."""

    def __init__(self, part: HealthPart) -> None:
        self._part = part
        self._losses: deque[float] = deque(maxlen=part.window)

    def judge(self, step: int, loss: float, *, norm: float | None = None) -> HealthSign | None:
        """Say what is wrong with a step, if anything; a sound loss joins the window."""
        if not math.isfinite(loss) or (norm is not None and not math.isfinite(norm)):
            what = "loss" if not math.isfinite(loss) else "gradient norm"
            return HealthSign("nan", step, f"the {what} of step {step} is not a number")
        if len(self._losses) >= min(_LEAST, self._part.window):
            middle = statistics.median(self._losses)
            spread = _ROBUST * statistics.median(abs(one - middle) for one in self._losses)
            jump = max(self._part.spike_deviations * spread, _LEAST_JUMP * abs(middle))
            if loss > middle + jump:
                return HealthSign(
                    "spike",
                    step,
                    f"the loss of step {step} is {loss:.4f}, where {middle:.4f} was usual",
                )
        self._losses.append(loss)
        return None

    def judge_scale(self, step: int, scale: float) -> HealthSign | None:
        """Say whether the loss scale has collapsed."""
        if scale >= MIN_SCALE:
            return None
        return HealthSign("scale", step, f"the loss scale fell to {scale:g} at step {step}")

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs to judge as this one would."""
        return {"losses": list(self._losses)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._losses = deque(state.get("losses", []), maxlen=self._part.window)
