"""Out-of-sample probabilities of an audit's features, which are the evidence of a small set.

A training ranks wrong labels best where samples are many. Where they are few, a model that was
fitted to all labels but one does (docs/audit.md), and an audit by features takes that instead.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from abstain.auditing.probabilities import from_probabilities
from abstain.data.reading import MEMORY_BUDGET
from abstain.embed.embedding import embed
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.folds import out_of_sample
from abstain.embed.leave_one_out import leave_one_out
from abstain.errors import AbstainError
from abstain.scores.evidence import Evidence, evidence_from_ledger
from abstain.scores.held_out import HeldOut
from abstain.training.recipe import DEFAULT_METHOD

if TYPE_CHECKING:
    from abstain.training.trained import Trained

SMALL = 2_000
"""Samples of the largest small set; the leave-one-out fit grows with their cube."""
_MODEL = "mlp"  # what features are trained by, unless a user names another


def is_small(trained: "Trained") -> bool:
    """Whether the evidence is out-of-sample: on few samples with features, by default settings.

    Whoever names another method or model asks what that saw; weights count in a training alone.
    """
    plan = trained.plan
    return (
        len(trained.data) <= SMALL
        and trained.encoder.sees == "table"
        and (plan.method, plan.model) == (DEFAULT_METHOD, _MODEL)
        and trained.data.weights is None
    )


def evidence_and_held_out(trained: "Trained") -> tuple[Evidence, HeldOut | None]:
    """The evidence on every label, and how many held-out labels the model behind it predicted."""
    given = trained.data.given.numpy()
    if not is_small(trained):
        return evidence_from_ledger(trained.ledger, given, trained.held_out), trained.held_out
    evidence, held_out = from_probabilities(probabilities_of(trained), trained.data)
    return replace(evidence, abstention=trained.ledger.abstention.numpy()), held_out


def probabilities_of(trained: "Trained") -> npt.NDArray[np.float32]:
    """(N, m) by models that have not seen the label of the sample, in the order of the source.

    Where the backbone was trained too, features are those of before: it has seen all labels.
    """
    given, classes = trained.data.given, trained.data.num_classes
    if isinstance(trained.encoder, FineTuningEncoder):
        features = embed(trained.data, trained.encoder.backbone).within(MEMORY_BUDGET)
    elif trained.encoder.sees == "table":
        features = trained.encoder.encode(trained.data)
    else:
        raise AbstainError(
            "probabilities need features: audit with a backbone, or with features=, got a network "
            "of its own"
        )
    one = leave_one_out if is_small(trained) else out_of_sample
    return one(features, given, classes).numpy()
