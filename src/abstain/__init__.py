"""Train classifiers on labels that are partly wrong, and find out which ones are.

The flow of the data, which is also the layout of the package:

    data ──▶ embed ──▶ models ──▶ losses ──▶ training ──▶ scores ──▶ auditing ──▶ report
             (backbone,  (m+1                  (loop, stop)  (ledger ──▶   ├──▶ review
              features)   outputs)                            P(wrong))    └──▶ export

Goes in: labelled data, of which some labels are wrong. Comes out: a model that abstains, and a
verdict on each label. Begin with `audit` in auditing/audit.py, or `train` in training/train.py.

Names are imported when they are first used: `import abstain` is quick, and torch is loaded only
by what needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abstain import noise, theory
    from abstain.auditing.audit import audit
    from abstain.auditing.result import Audit
    from abstain.data import load
    from abstain.errors import AbstainError, DataError
    from abstain.losses import (
        GamblersLoss,
        GeneralizedCrossEntropy,
        SmallStakeLoss,
        abstention,
        belief,
        gamblers_loss,
        stake,
    )
    from abstain.models import with_abstention
    from abstain.predicting.predict import predict_from
    from abstain.predicting.predictions import Predictions
    from abstain.review.serving import review_labels
    from abstain.scores.interval import Interval
    from abstain.scores.ledger import Ledger
    from abstain.training.objective.stopping import AnalyticalStop, ValidationStop
    from abstain.training.recipe import Recipe
    from abstain.training.train import train

__version__ = "0.1.0.dev0"

_HOMES = {
    "abstain.auditing.audit": ("audit",),
    "abstain.auditing.result": ("Audit",),
    "abstain.data": ("load",),
    "abstain.errors": ("AbstainError", "DataError"),
    "abstain.losses": (
        "GamblersLoss",
        "GeneralizedCrossEntropy",
        "SmallStakeLoss",
        "abstention",
        "belief",
        "gamblers_loss",
        "stake",
    ),
    "abstain.models": ("with_abstention",),
    "abstain.review.serving": ("review_labels",),
    "abstain.predicting.predict": ("predict_from",),
    "abstain.predicting.predictions": ("Predictions",),
    "abstain.scores.interval": ("Interval",),
    "abstain.scores.ledger": ("Ledger",),
    "abstain.training.recipe": ("Recipe",),
    "abstain.training.train": ("train",),
    "abstain.training.objective.stopping": ("AnalyticalStop", "ValidationStop"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("noise", "theory")

__all__ = [
    "AbstainError",
    "AnalyticalStop",
    "Audit",
    "DataError",
    "GamblersLoss",
    "GeneralizedCrossEntropy",
    "Interval",
    "Ledger",
    "Predictions",
    "Recipe",
    "SmallStakeLoss",
    "ValidationStop",
    "__version__",
    "abstention",
    "audit",
    "belief",
    "gamblers_loss",
    "load",
    "noise",
    "predict_from",
    "review_labels",
    "stake",
    "theory",
    "train",
    "with_abstention",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"abstain.{name}")
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'abstain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
