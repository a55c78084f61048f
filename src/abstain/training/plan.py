"""The plan of a run: all that decides what it gives, apart from the data; saved with the result."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, get_args

from abstain import noise, theory
from abstain.errors import AbstainError
from abstain.losses.payoff import DEFAULT_GUARD, PayoffRule, check_rule
from abstain.training.objective.stopping import AnalyticalStop
from abstain.training.objective.warm_up import held_out_samples

LossName: TypeAlias = Literal["gamblers", "nll", "lq", "small-stake", "trusted"]
OptimizerName: TypeAlias = Literal["adam", "adamw", "sgd", "laprop"]
ScheduleName: TypeAlias = Literal["constant", "cosine", "linear", "one-cycle"]
Precision: TypeAlias = Literal["auto", "fp32", "bf16", "fp16"]
StopName: TypeAlias = Literal["never", "analytical", "validation", "settled"]
WarmUpEnd: TypeAlias = Literal["fixed", "held-out"]

# An unknown data set is trained for about this many steps, within these numbers of epochs. More
# than 30 make a model memorise the labels of a small one, right and wrong ones.
_STEPS, _FEWEST_EPOCHS, _MOST_EPOCHS = 4000, 15, 30
# Largest batches. On 50,000 rows of features, batches of 512 take a third of the time of 128 and
# rank wrong labels as well.
_MOST_INPUTS, _MOST_NUMBERS = 128, 512
# Fewer samples than this are memorised within a few epochs of cross-entropy: on 134 wines,
# 20% of them mislabelled, test accuracy is 0.94 after one epoch of it and 0.87 after ten.
_FEW_SAMPLES = 1000
# In fine-tuning, batches are large where there are many samples: a GPU is then busy.
_LARGE_SET, _LARGE_BATCH, _SMALL_BATCH = 20_000, 512, 64


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides what a run gives, apart from the data; saved with every result.

    A `Recipe`, which is what a user asks for, becomes a plan, and `resolved` fills in what is
    still None by a fixed rule that looks at sizes only. Dry runs show it, a resumed run and
    `--from` read it.

    >>> Plan().resolved(num_samples=50_000, num_classes=10).epochs
    15
    """

    method: str = "schedule"
    loss: LossName = "gamblers"
    payoff: float | PayoffRule | None = "euc"
    """A number, a rule, or None: a fixed one, just below the number of classes."""
    guard: float = DEFAULT_GUARD
    q: float = 0.7
    truncate: float | None = None
    warm_up: int | None = None
    """Epochs of cross-entropy before the loss takes over; None: a tenth, at least two, but only
    one where samples are few."""
    warm_up_ends: WarmUpEnd = "fixed"
    """After `warm_up` epochs; or by itself, where the loss on held-out labels turns, from
    which epoch the training then goes on, with all labels."""
    average: float | None = None
    """Epochs over which the weights are averaged; the model is then that average."""
    epochs: int | None = None
    batch: int | None = None
    """Samples per step, over all processes together."""
    model: str | None = None
    backbone: str = "auto"
    """The pretrained network whose features of images and texts are used: a name (see
    `abstain.embed.backbones.names`), `auto` for the best on this machine, or `none` to learn from
    scratch, as a named model always does."""
    finetune: bool | None = None
    """Whether the backbone is trained too, at a share of the learning rate of its last layer;
    `plan_of` then starts from the settings of `FINETUNE`. None: for images, where the budget
    allows to try it, and held-out labels show that it is better."""
    augment: bool | tuple[str, ...] | None = None
    """Whether images are changed at random each time they are seen, in every way that held-out
    labels show to be safe; by default where a backbone is fine-tuned. What was found safe is
    recorded here, by the names of `abstain.training.loop.augmentation`."""
    optimizer: OptimizerName = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: ScheduleName = "constant"
    clip: float | None = None
    """Largest norm of the gradient."""
    precision: Precision = "auto"
    """Auto follows from the device and the size of a batch, and what it is is recorded."""
    stop: StopName = "never"
    """Never before all epochs are done; at the plateau; by held-out labels; or, for an audit, where
    more would hardly change which label is worse than which."""
    rate: float | None = None
    """Noise rate, for the analytical stop."""
    noise: str = "symmetric"
    """Kind of noise that the analytical stop assumes."""
    patience: int = 5
    hold_out: float = 0.1
    """Share of the training labels held out for the validation stop."""
    flip: float = 0.0
    """Share of labels to flip on purpose."""
    flip_kind: str = "symmetric"
    seed_noise: int = 0
    seed_init: int = 0
    seed_order: int = 0

    def __post_init__(self) -> None:
        for name in ("method", "model", "backbone", "noise", "flip_kind"):
            value = getattr(self, name)
            if not isinstance(value, str) and (name != "model" or value is not None):
                raise AbstainError(f"must be a text, got {value!r}", argument=name)
        if not isinstance(self.finetune, bool | None):
            raise AbstainError(
                f"must be True, False or None, got {self.finetune!r}", argument="finetune"
            )
        if not isinstance(self.augment, bool | tuple | None):
            raise AbstainError(
                f"must be True, False, None or a tuple of names, got {self.augment!r}",
                argument="augment",
            )
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in get_args(allowed):
                options = ", ".join(get_args(allowed))
                raise AbstainError(f"must be one of {options}, got {value!r}", argument=name)
        for name in ("epochs", "batch", "patience"):
            _check(name, getattr(self, name), lambda x: _whole(x, 1), "a whole number, at least 1")
        _check("warm_up", self.warm_up, lambda x: _whole(x, 0), "a whole number, at least 0")
        for name in ("seed_noise", "seed_init", "seed_order"):
            # Seeds of epochs and processes are derived from these, and torch takes 63 bits.
            _check(name, getattr(self, name), lambda x: _whole(x, 0, 2**32), "in [0, 2³²), whole")
        _check("weight_decay", self.weight_decay, lambda x: 0 <= x < math.inf, "at least 0")
        for name in ("learning_rate", "clip", "guard", "average"):
            _check(name, getattr(self, name), lambda x: 0 < x < math.inf, "greater than 0")
        _check("q", self.q, lambda x: 0 < x <= 1, "in (0, 1]")
        _check("truncate", self.truncate, lambda x: 0 < x < 1, "in (0, 1)")
        for name in ("flip", "rate"):
            _check(name, getattr(self, name), lambda x: 0 <= x < 1, "in [0, 1)")
        _check("hold_out", self.hold_out, lambda x: 0 < x < 1, "in (0, 1)")
        if isinstance(self.payoff, str):
            check_rule(self.payoff)
        elif self.payoff is not None:
            _check("payoff", self.payoff, lambda x: x > 1, "greater than 1")
        has_other_stop = self.stop not in ("never", "settled")
        if self.warm_up_ends == "held-out" and (has_other_stop or self.warm_up is not None):
            raise AbstainError(
                "warm_up_ends='held-out' finds the end of the warm-up by itself: it needs stop "
                f"'never' or 'settled' and no warm_up, got stop={self.stop!r} and "
                f"warm_up={self.warm_up}; to stop early use method 'ves' or 'aes'"
            )
        if self.stop == "analytical":
            if self.rate is None:
                raise AbstainError(
                    "must be given for the analytical stop, got none: it is the noise rate; "
                    "without knowing it, use method 'auto' or 'ves'",
                    argument="rate",
                )
            if self.loss != "gamblers" or isinstance(self.payoff, str):
                raise AbstainError(
                    "stop='analytical' needs loss='gamblers' with a fixed payoff, "
                    f"got loss={self.loss!r} and payoff={self.payoff!r}"
                )

    def until_settled(self) -> "Plan":
        """This plan for an audit: no more training than it takes to put the labels in order.

        >>> from abstain.training.recipe import plan_of
        >>> plan_of("auto").until_settled().stop, plan_of("nll").until_settled().stop
        ('settled', 'never')

        A schedule that ends with a learning rate near 0, as that of fine-tuning, is not cut short.
        """
        trains_to_the_end = self.warm_up_ends == "held-out" and self.stop == "never"
        may_end = trains_to_the_end and not self.finetune
        return replace(self, stop="settled") if may_end else self

    def resolved(self, *, num_samples: int, num_classes: int, numbers: bool = False) -> "Plan":
        """This plan with nothing left open, by rules that look at sizes only.

        Args:
            num_samples: How many there are.
            num_classes: How many there are.
            numbers: Whether the model sees rows of numbers, of which a step takes more.

        Where fine-tuning is left open, this is the plan of the training before it is tried.

        Few samples get small batches and more epochs, so that every data set is trained for some
        hundreds of steps at least, and most for some thousands.
        """
        most = _MOST_NUMBERS if numbers else _MOST_INPUTS
        usual = min(most, max(16, 2 ** round(math.log2(max(num_samples, 32) / 40))))
        if self.finetune:
            usual = _LARGE_BATCH if num_samples >= _LARGE_SET else _SMALL_BATCH
        batch = self.batch or usual
        steps = math.ceil(num_samples / batch)
        epochs = self.epochs or min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, math.ceil(_STEPS / steps)))
        warm_up = self.warm_up
        if warm_up is None:
            usual = 1 if num_samples < _FEW_SAMPLES else max(2, epochs // 10)
            warm_up = min(usual, epochs - 1)
        if self.loss == "nll":
            warm_up = 0  # it is what a warm-up does
        if self.warm_up_ends == "held-out":
            warm_up = None
        if warm_up is not None and warm_up >= epochs:
            raise AbstainError(
                f"must be less than epochs, {epochs}, got {warm_up}", argument="warm_up"
            )
        payoff = self.payoff
        if payoff is None:
            payoff = float(theory.suggested_payoff(1 - (self.rate or 0.0), num_classes))
        if isinstance(payoff, int | float) and not math.isinf(payoff) and payoff > num_classes:
            raise AbstainError(
                f"must lie in (1, {num_classes}] for {num_classes} classes, got {payoff:g}",
                argument="payoff",
            )
        if self.flip_kind not in noise.KINDS:
            raise AbstainError(
                f"must be one of {', '.join(noise.KINDS)}, got {self.flip_kind!r}",
                argument="flip_kind",
            )
        if self.stop == "analytical":
            # Here, and not only when the training begins: a dry run is to find out, too.
            AnalyticalStop(self.rate, float(payoff), num_classes, self.noise)
        augment = bool(self.finetune) if self.augment is None else self.augment
        return replace(
            self, batch=batch, epochs=epochs, warm_up=warm_up, payoff=payoff, augment=augment,
            finetune=bool(self.finetune),
        )  # fmt: skip

    def held_out(self, num_samples: int) -> int:
        """Number of held-out samples, which end the warm-up or the training.

        >>> from abstain.training.recipe import plan_of
        >>> [plan_of(method).held_out(1000) for method in ("nll", "ves", "auto")]
        [0, 100, 200]
        """
        if self.warm_up_ends == "held-out":
            wanted = held_out_samples(num_samples)
        elif self.stop == "validation":
            wanted = max(1, round(self.hold_out * num_samples))
        else:
            return 0
        return min(wanted, num_samples - 1)

    def as_json(self) -> dict[str, Any]:
        """As plain values for JSON; an infinite payoff becomes the string "inf"."""
        values = asdict(self)
        if self.payoff == math.inf:
            values["payoff"] = "inf"
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Plan":
        """The plan that `as_json` wrote."""
        check_known([field.name for field in fields(cls)], values)
        plain = dict(values)
        if plain.get("payoff") == "inf":
            plain["payoff"] = math.inf
        if isinstance(plain.get("augment"), list):  # JSON has no tuples
            plain["augment"] = tuple(plain["augment"])
        return cls(**plain)


_CHOICES = {
    "loss": LossName,
    "optimizer": OptimizerName,
    "schedule": ScheduleName,
    "precision": Precision,
    "stop": StopName,
    "warm_up_ends": WarmUpEnd,
}


def check_known(known: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raise for a setting that is not one of those that are known."""
    if foreign := sorted(set(settings) - set(known)):
        near = get_close_matches(foreign[0], known, 1)
        raise AbstainError(
            f"must hold only known settings, got {', '.join(foreign)}"
            + (f"; did you mean {near[0]}?" if near else ""),
            argument="recipe",
        )


def _whole(value: float, least: int, end: float = math.inf) -> bool:
    return isinstance(value, int) and value is not True and least <= value < end


def _check(name: str, value: Any, holds: Any, rule: str) -> None:  # noqa: ANN401
    if value is not None and not (isinstance(value, int | float) and holds(value)):
        raise AbstainError(f"must be {rule}, got {value!r}", argument=name)
