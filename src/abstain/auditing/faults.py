"""The checks of an audit: problems of a data set besides its labels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from abstain.checks.check import ALL, NO_FEATURES, Checks, check
from abstain.checks.rules import Ints
from abstain.data import LabeledData
from abstain.embed.embedding import embed
from abstain.embed.encoder import BackboneEncoder
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.store.shards import Features
from abstain.errors import AbstainError
from abstain.scores.verdict import Verdict
from abstain.support.wording import did_you_mean

if TYPE_CHECKING:
    from abstain.training.trained import Trained

LABELS = "labels"
"""The audit itself, which is always made."""
QUICK = {"cpu": 50_000, "cuda": 500_000}
"""Samples up to which neighbours are found in tens of seconds, and their features fit in memory."""
TOO_MANY = "neighbours of so many samples are skipped by default"


def faults_of(
    data: LabeledData,
    trained: "Trained | None",
    verdict: Verdict,
    names: Sequence[str] | None = None,
    test: LabeledData | None = None,
    prints: Ints | None = None,
) -> Checks | None:
    """The checks of an audit; None where only labels were asked for.

    Args:
        data: What was audited, as a person sees it.
        trained: The training, if there was one: its features are looked at.
        verdict: On each label.
        names: Of `abstain.checks.check.ALL`, or `labels`; by default all, but of more than 50,000
            samples (500,000 with a GPU) only what needs no neighbours, which would take minutes.
        test: The test set, in which samples should not stand.
        prints: Fingerprints of the samples as the model saw them, where they are known.
    """
    chosen = check_names(names)
    if chosen == ():
        return None
    seen = data if trained is None else trained.data
    quick = QUICK["cuda" if torch.cuda.is_available() else "cpu"]
    by_neighbours = chosen is not None or len(data) <= quick
    use = trained if by_neighbours else None
    return check(
        seen,
        _features(use, seen),
        data.given.numpy(),
        verdict.evidence,
        ALL if chosen is None else chosen,
        None if test is None else (test, _features(use, test)),
        flagged=verdict.is_label_issue,
        without=NO_FEATURES if by_neighbours else TOO_MANY,
        prints=prints,
    )


def _features(trained: "Trained | None", data: LabeledData) -> Tensor | Features | None:
    """Compute features of the inputs: those of the untrained backbone, or of an encoded table."""
    if trained is None:
        return None
    if isinstance(trained.encoder, BackboneEncoder):
        return trained.encoder.features(data)
    if isinstance(trained.encoder, FineTuningEncoder):
        return embed(data, trained.encoder.backbone)
    if trained.encoder.sees != "table":
        return None
    encoded = trained.encoder.encode(data)
    return encoded if isinstance(encoded, Tensor | Features) else None


def check_names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names of checks without `labels`, or an error for one that is not known.

    >>> check_names(["labels", "outliers"]), check_names(None)
    (('outliers',), None)
    """
    if names is None:
        return None
    if isinstance(names, str):
        raise AbstainError(f"must be a list of names, got {names!r}", argument="check")
    known = (LABELS, *ALL)
    for name in names:
        if name not in known:
            raise AbstainError(
                f"must be of {', '.join(known)}, got {name!r}{did_you_mean(str(name), known)}",
                argument="check",
            )
    return tuple(name for name in names if name != LABELS)
