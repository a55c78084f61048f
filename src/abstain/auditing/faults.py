"""What else is wrong with a data set, besides its labels: the checks of an audit."""

from collections.abc import Sequence

from torch import Tensor

from abstain.checks.check import ALL, Checks, check
from abstain.data import LabeledData
from abstain.embed.embedding import embed
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.shards import Features
from abstain.errors import AbstainError
from abstain.scores.evidence import Evidence
from abstain.support.wording import did_you_mean
from abstain.training.trained import Trained

LABELS = "labels"
"""The audit itself, which is always made."""
_QUICK = 20_000
"""Samples up to which neighbours are found in seconds on a CPU."""
_BY_NEIGHBOURS = ("duplicates", "outliers", "groups")


def faults_of(
    data: LabeledData,
    trained: Trained | None,
    evidence: Evidence,
    names: Sequence[str] | None = None,
) -> Checks | None:
    """The checks of an audit; None where only labels were asked for.

    Args:
        data: What was audited, as a person sees it.
        trained: The training, if there was one: its features are looked at.
        evidence: On each label.
        names: Of `abstain.checks.check.ALL`, or `labels`; by default all, but of more than 20,000
            samples only those that need no neighbours, which would take minutes.
    """
    chosen = check_names(names)
    if chosen is None:
        few = len(data) <= _QUICK
        chosen = tuple(name for name in ALL if few or name not in _BY_NEIGHBOURS)
    if not chosen:
        return None
    seen = data if trained is None else trained.data
    features: Tensor | Features | None = None
    if trained is not None and isinstance(trained.encoder, FineTuningEncoder):
        features = embed(trained.data, trained.encoder.backbone)  # as it was before it was trained
    elif trained is not None and trained.encoder.sees == "table":
        encoded = trained.encoder.encode(trained.data)
        features = encoded if isinstance(encoded, Tensor | Features) else None
    return check(seen, features, data.given.numpy(), evidence, chosen)


def check_names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names of checks without `labels`, or an error for one that is not known.

    >>> check_names(["labels", "outliers"]), check_names(None)
    (('outliers',), None)
    """
    if names is None:
        return None
    known = (LABELS, *ALL)
    for name in names:
        if name not in known:
            raise AbstainError(
                f"must be of {', '.join(known)}, got {name!r}{did_you_mean(str(name), known)}",
                argument="check",
            )
    return tuple(name for name in names if name != LABELS)
