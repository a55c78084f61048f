"""The stops of the authors' code, which look at whole epochs."""

import math
from dataclasses import dataclass

from abstain.training.objective.stopping import AnalyticalStop
from abstain.training.plan import Plan
from reproduction.authors_plan import quirk


@dataclass
class EpochStop:
    """Stop when the mean training loss of an epoch is below the analytical threshold.

    >>> stop = EpochStop(1.8)
    >>> stop.update(1.9), stop.update(1.7), stop.reason
    (False, True, 'the mean loss of an epoch, 1.7000, is below 1.8000')
    """

    threshold: float
    loss: float = math.inf

    def update(self, loss: float) -> bool:
        """Take in the mean loss of an epoch; whether to stop."""
        self.loss = loss
        return loss < self.threshold

    @property
    def reason(self) -> str:
        """Why it has stopped, or why it has not."""
        is_below = "is below" if self.loss < self.threshold else "is not below"
        return f"the mean loss of an epoch, {self.loss:.4f}, {is_below} {self.threshold:.4f}"


@dataclass
class RisingStop:
    """Stop after some epochs in a row with a held-out loss above the least one.

    >>> stop = RisingStop(2)
    >>> [stop.update(loss) for loss in (1.0, 0.9, 1.1, 0.9, 1.0, 1.0)]
    [False, False, False, False, False, True]
    """

    rises: int
    least: float = math.inf
    waited: int = 0

    def update(self, loss: float) -> bool:
        """Take in the held-out loss after an epoch; whether to stop."""
        self.waited = self.waited + 1 if loss > self.least else 0
        self.least = min(self.least, loss)
        return self.waited >= self.rises

    @property
    def reason(self) -> str:
        """Why it has stopped, or why it has not."""
        return f"held-out loss above {self.least:.4f} for {self.waited} of {self.rises} epochs"


def authors_stop(recipe: Plan, num_classes: int) -> EpochStop | RisingStop | None:
    """The stop of a resolved recipe that the authors' code has and ours has not."""
    if quirk(recipe, "rises"):
        return RisingStop(quirk(recipe, "rises"))
    if quirk(recipe, "ends_by_epoch"):
        payoff = float(recipe.payoff or math.inf)
        return EpochStop(AnalyticalStop(recipe.rate, payoff, num_classes, recipe.noise).plateau)
    return None
