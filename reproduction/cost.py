"""The time of runs: a guess at first, then what was measured on this machine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from abstain.data import BUILTIN
from reproduction.record import Record, machine
from reproduction.runs import Run


@dataclass(frozen=True)
class _Speed:
    """Training with an evaluation after every epoch, as measured on an NVIDIA H200."""

    samples: float
    """Per second, all networks of a group together."""
    step: float
    """Seconds that a step takes, however few networks share it."""
    on_cpu: float
    """Samples per second on two CPU cores."""


_SPEED = {
    "mnist-cnn": _Speed(4_500_000, 3e-4, 3_000),
    "cifar-cnn": _Speed(2_500_000, 3e-4, 6_000),
    "lstm-attention": _Speed(300_000, 5e-3, 40),
    "lstm-padded": _Speed(400_000, 3e-3, 40),
    "mlp-256": _Speed(5_000_000, 2e-4, 10_000),
    "resnet18": _Speed(8_700, 0.0, 40),
}
_SLOW = _Speed(50_000, 1e-3, 500)
# What comes on top once for each network on a GPU: its step is compiled.
_SET_UP = 30.0
# Shares of its epochs that a run is expected to take before it stops.
_STOPS = {"never": 1.0, "analytical": 0.3, "validation": 0.4}


class Cost:
    """Seconds that runs will take on this machine, corrected by those that were made here."""

    def __init__(self, known: Iterable[Record] = ()) -> None:
        self._gpu = torch.cuda.is_available()
        self._measured: dict[str, tuple[float, float]] = {}
        self._ready: set[str] = set()
        here = machine()["device"]
        for record in known:
            alone = not record.machine.get("processes")
            if alone and record.machine.get("device") == here:
                self._learn([record.run], record.seconds)

    def seconds(self, runs: Sequence[Run]) -> float:
        """Estimate the seconds of runs that are stacked into one group."""
        if not runs:
            return 0.0
        taken, guessed = self._measured.get(runs[0].network, (0.0, 0.0))
        return self._guess(runs) * (taken / guessed if guessed else 1.0)

    def set_up(self, network: str) -> float:
        """Seconds that the first group of a network takes in addition."""
        return 0.0 if network in self._ready or not self._gpu else _SET_UP

    def learn(self, runs: Sequence[Run], seconds: float) -> None:
        """Take in how long a group took here and now."""
        network = runs[0].network
        self._learn(runs, max(0.0, seconds - self.set_up(network)))
        self._ready.add(network)

    def _learn(self, runs: Sequence[Run], seconds: float) -> None:
        taken, guessed = self._measured.get(runs[0].network, (0.0, 0.0))
        self._measured[runs[0].network] = taken + seconds, guessed + self._guess(runs)

    def _guess(self, runs: Sequence[Run]) -> float:
        speed = _SPEED.get(runs[0].network, _SLOW)
        samples = sum(_samples(run) for run in runs)
        if not self._gpu:
            return samples / speed.on_cpu
        steps = max(_steps(run) for run in runs)
        return max(samples / speed.samples, steps * speed.step)


def _samples(run: Run) -> float:
    """Training samples that pass through networks, all epochs together."""
    networks = 2 if run.recipe.method.startswith("coteaching") else 1
    return _epochs(run) * BUILTIN[run.data].train * networks


def _steps(run: Run) -> float:
    return _epochs(run) * BUILTIN[run.data].train / (run.recipe.batch or 128)


def _epochs(run: Run) -> float:
    """Those that it is expected to take."""
    return (run.recipe.epochs or 1) * _STOPS[run.recipe.stop]
