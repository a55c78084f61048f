"""How long runs take: a guess at first, then what was measured on this machine."""

from collections.abc import Iterable, Sequence

import torch

from abstain.data import BUILTIN
from abstain.paper.record import Record, machine
from abstain.paper.runs import Run

# Training samples per second, all runs of a group together: (GPU, two CPU cores).
_SPEED = {
    "mnist-cnn": (600_000.0, 3_000.0),
    "cifar-cnn": (800_000.0, 6_000.0),
    "lstm-attention": (16_000.0, 250.0),
    "mlp-256": (2_000_000.0, 20_000.0),
    "resnet18": (25_000.0, 40.0),
}
_SLOW = (50_000.0, 500.0)
# However many runs share a step on a GPU, it takes this long.
_STEP = 1e-4
# Shares of its epochs that a run is expected to take before it stops.
_STOPS = {"never": 1.0, "analytical": 0.3, "validation": 0.4}


class Cost:
    """Seconds that runs will take on this machine, corrected by those that were made here."""

    def __init__(self, known: Iterable[Record] = ()) -> None:
        self._gpu = torch.cuda.is_available()
        self._measured: dict[str, tuple[float, float]] = {}
        here = machine()["device"]
        for record in known:
            if record.machine.get("device") == here:
                self.learn([record.run], record.seconds)

    def seconds(self, runs: Sequence[Run]) -> float:
        """How long runs will take that are stacked into one group."""
        if not runs:
            return 0.0
        taken, guessed = self._measured.get(runs[0].network, (0.0, 0.0))
        return self._guess(runs) * (taken / guessed if guessed else 1.0)

    def learn(self, runs: Sequence[Run], seconds: float) -> None:
        """Take in how long a group took."""
        taken, guessed = self._measured.get(runs[0].network, (0.0, 0.0))
        self._measured[runs[0].network] = taken + seconds, guessed + self._guess(runs)

    def _guess(self, runs: Sequence[Run]) -> float:
        speed = _SPEED.get(runs[0].network, _SLOW)[0 if self._gpu else 1]
        total = sum(_samples(run) for run in runs) / speed
        if not self._gpu:
            return total
        return max(total, _STEP * max(_samples(r) / (r.recipe.batch or 128) for r in runs))


def _samples(run: Run) -> float:
    """Training samples that pass through networks, all epochs together."""
    recipe = run.recipe
    networks = 2 if recipe.method.startswith("coteaching") else 1
    return BUILTIN[run.data].train * (recipe.epochs or 1) * _STOPS[recipe.stop] * networks
