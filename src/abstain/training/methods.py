"""The methods by name, and the words that their settings may be."""

import math
from typing import Any, Literal, TypeAlias

LossName: TypeAlias = Literal["gamblers", "nll", "lq", "small-stake", "trusted"]
OptimizerName: TypeAlias = Literal["adam", "adamw", "sgd", "laprop"]
ScheduleName: TypeAlias = Literal["constant", "cosine", "linear", "one-cycle"]
Precision: TypeAlias = Literal["auto", "fp32", "bf16", "fp16"]
StopName: TypeAlias = Literal["never", "analytical", "validation", "settled"]
WarmUpEnd: TypeAlias = Literal["fixed", "held-out"]

METHODS: dict[str, dict[str, Any]] = {
    "auto": {"loss": "trusted", "warm_up_ends": "held-out", "average": 2.0},
    "schedule": {},
    "schedule-released": {"guard": 1e-10},
    "mid": {"payoff": "mid"},
    "exp": {"payoff": "exp"},
    "small-stake": {"loss": "small-stake"},
    "gamblers": {"payoff": None},
    "aes": {"payoff": None, "stop": "analytical", "warm_up": 0},
    "ves": {"payoff": None, "stop": "validation"},
    "lq": {"loss": "lq", "warm_up": 0},
    "lq-truncated": {"loss": "lq", "truncate": 0.5},
    "nll": {"loss": "nll"},
    # Cross-entropy is the gambler's loss at an infinite payoff, and its plateau is the entropy of
    # the labels.
    "nll-entropy": {"payoff": math.inf, "stop": "analytical", "warm_up": 0},
}
"""The methods by name: the settings in which each differs from the defaults of the fields."""

FINETUNE: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "weight_decay": 0.01,
    "schedule": "one-cycle",
    "epochs": 8,
}
"""The settings in which fine-tuning differs from any method, unless the user gives others."""

DEFAULT_METHOD = "auto"
"""The method where none is given."""
