"""Variants that the authors ran, by their public code, where the paper or ours has others.

A setting is run in all cells of a column of a table; only such a one is taken for a cause.
Repositories: chenblair/noisy-label-gamblers; chenblair/coteaching_plus, branch gamblers-exp;
physicsru/adaptive_label_smoothing.
"""

from dataclasses import dataclass, replace
from typing import Any

from reproduction.published import published
from reproduction.recipes import make_run
from reproduction.runs import Run

SYMMETRIC, STOPPING, PAIRFLIP = "symmetric", "early_stopping", "pairflip"
_TINY = 1e-10
_EXACT = ("exact", True)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A cell of a table of the paper with a setting that it does not have there."""

    table: str
    data: str
    rate: float
    method: str
    what: str
    """The setting, in words."""
    changes: tuple[tuple[str, Any], ...]
    without_last: bool = False
    """Whether the paper's number is of an evaluation that never predicts the last class."""

    @property
    def column(self) -> str:
        """Its name among the variants of a row.

        >>> VARIANTS[0].column
        'symmetric nll: payoff 10'
        """
        return f"{self.table} {self.method}: {self.what}"

    def run(self) -> Run:
        """At seed 0."""
        kind = "pairflip" if self.table == PAIRFLIP else "symmetric"
        return make_run(self.data, self.method, self.rate, kind, **dict(self.changes))


def _in_all(
    data: str,
    method: str,
    what: str,
    *,
    without_last: bool = False,
    **changes: Any,  # noqa: ANN401
) -> list[Variant]:
    """A setting in every cell that the paper has of a method on a data set."""
    return [
        Variant(
            table=table,
            data=data,
            rate=rate,
            method=method,
            what=what,
            changes=tuple(changes.items()),
            without_last=without_last,
        )
        for table in (SYMMETRIC, PAIRFLIP, STOPPING)
        if method in published(table).columns
        for name, rate in published(table).rows
        if name == data
    ]


def _mnist() -> list[Variant]:
    mlp: dict[str, Any] = {"network": "mlp-256", "inside": _TINY}
    late: dict[str, Any] = {"warm_up": 10, "warm_payoff": 10.0}
    by_sgd: dict[str, Any] = {
        "optimizer": "sgd",
        "learning_rate": 5e-3,
        "epochs": 200,
        "inside": _TINY,
    }
    held_out: dict[str, Any] = {"samples": 54_000, "rises": 4, "stop": "never"}
    pair = {"network": "mlp-256", "public": True, "epochs": 49}
    guarded: dict[str, Any] = {"guard": _TINY, "inside": _TINY}
    return [
        *_in_all("mnist", "nll", "payoff 10", fixed_payoff=10.0, inside=_TINY),
        *_in_all("mnist", "nll", "payoff 10, MLP", fixed_payoff=10.0, **mlp),
        *_in_all("mnist", "gamblers", "payoff 9.9", payoff=9.9, inside=_TINY),
        *_in_all("mnist", "gamblers", "payoff 10, then 9.9, MLP", payoff=9.9, **late, **mlp),
        *_in_all("mnist", "schedule", "guard 1e-10, also inside the log", warm_up=0, **guarded),
        *_in_all("mnist", "schedule", "guard 1e-10 after 2 epochs of cross-entropy", guard=_TINY),
        *_in_all("mnist", "schedule", "payoff 10, then guard 1e-10", **late, **guarded),
        *_in_all("mnist", "schedule", "payoff 10, then guard 1e-10, MLP", guard=_TINY, **late,
                 **mlp),
        *_in_all("mnist", "lq", "MLP", network="mlp-256"),
        *_in_all("mnist", "coteaching_plus", "its public code", without_last=True, **pair),
        *_in_all("mnist", "analytical", "by SGD, at an epoch's end", ends_by_epoch=True, **by_sgd),
        *_in_all("mnist", "validation", "by SGD, trained on held-out labels, too", leak=True,
                 **held_out, **by_sgd),
        *_in_all("mnist", "validation", "by SGD", **held_out, **by_sgd),
    ]  # fmt: skip


def _cifar10() -> list[Variant]:
    late: dict[str, Any] = {"warm_payoff": 1000.0, "inside": _TINY, "epochs": 99}
    pair = {"public": True, "epochs": 99}
    return [
        *_in_all("cifar10", "nll", "payoff 1000", fixed_payoff=1000.0, inside=_TINY, epochs=99),
        *_in_all("cifar10", "gamblers", "payoff 1000, then 9.9", payoff=9.9, **late),
        *_in_all("cifar10", "gamblers_aes", "payoff 1000, then 9.9, at an epoch's end",
                 payoff=9.9, ends_by_epoch=True, **late),
        *_in_all("cifar10", "schedule", "payoff 1000, then guard 1e-10", guard=_TINY, **late),
        *_in_all("cifar10", "lq", "the last class is never predicted", without_last=True,
                 epochs=99),
        *_in_all("cifar10", "coteaching_plus", "its public code", without_last=True, **pair),
    ]  # fmt: skip


def _imdb() -> list[Variant]:
    """Word vectors and tokens are ours: 100 dimensions, and words by a regular expression."""
    plain: dict[str, Any] = {"network": "lstm-padded", "batch": 32, "samples": 17_500}
    laprop: dict[str, Any] = {**plain, "fresh": True, "beta1": 0.8, "beta2": 0.99}
    adam: dict[str, Any] = {**plain, "fresh": True, "optimizer": "adam"}
    late: dict[str, Any] = {"warm_up": 5, "warm_payoff": 2.0, "payoff": 1.9}
    what = "plain LSTM, batches of 32, a new optimiser every epoch"
    return [
        *_in_all("imdb", "validation", f"{what}, held-out loss of logits", rises=4, raw=True,
                 stop="never", epochs=100, **adam, **late),
        *_in_all("imdb", "analytical", what, ends_by_epoch=True, epochs=100, **adam, **late),
        *_in_all("imdb", "nll", what, **laprop),
        *_in_all("imdb", "gamblers", f"{what}, payoff 2, then 1.9", **laprop, **late),
        *_in_all("imdb", "gamblers_aes", f"{what}, payoff 2, then 1.9", ends_by_epoch=True,
                 **laprop, **late),
        *_in_all("imdb", "schedule", what, guard=_TINY, inside=_TINY, **laprop),
        *_in_all("imdb", "lq", what, **laprop),
        *_in_all("imdb", "coteaching_plus", what, **laprop),
    ]  # fmt: skip


def _adam() -> list[Variant]:
    """Some cells of IMDB with Adam in place of LaProp, for a claim about these."""
    cells: dict[str, dict[str, tuple[float, ...]]] = {
        SYMMETRIC: {"gamblers": (0.2, 0.3), "nll": (0.2, 0.3), "lq": (0.2, 0.3)},
        STOPPING: {"analytical": (0.2,)},
    }
    adam = (("optimizer", "adam"),)
    return [
        Variant(table=t, data="imdb", rate=r, method=m, what="Adam", changes=adam)
        for t, methods in cells.items()
        for m, rates in methods.items()
        for r in rates
    ]


VARIANTS = [*_mnist(), *_cifar10(), *_imdb()]
"""The authors' settings."""

_CONTROLLED = (("mnist", "nll", 0.5), ("mnist", "gamblers", 0.8), ("cifar10", "lq", 0.65))
CONTROLS = [
    replace(variant, what=f"{variant.what}, in float32", changes=(*variant.changes, _EXACT))
    for variant in VARIANTS
    if variant.table == SYMMETRIC
    and (variant.data, variant.method, variant.rate) in _CONTROLLED
    and "MLP" not in variant.what
]
"""The same in full precision."""
OPTIMIZERS = _adam()
