"""The caution that goes with a noise rate: its basis, and the remedy, in plain words."""

from shlex import quote
from typing import TYPE_CHECKING

import numpy as np

from abstain.embed.backbones.names import AUTO, NONE
from abstain.scores.held_out import HeldOut
from abstain.support.wording import many

if TYPE_CHECKING:
    from abstain.auditing.result import Audit

_TO_CHECK = 200  # labels that measure the rate within 5 points: bench/sampling.py
_LEARNT_FROM = 742  # samples: docs/audit.md
_HARDLY, _ERRORS = 0.1, 3.0  # part of what a guess misses, and standard errors of it
_IN_SAMPLE = (
    0.995  # agreement that no model reaches on labels it has not seen, unless all are right
)


def caution_of(audit: "Audit") -> str | None:
    """Say what limits the noise rate of an audit; None once it is measured."""
    if audit.measured or audit.is_known:
        return None
    return f"{_weakness(audit)}This is {_what_it_is(audit)} {_smallness(audit)}{_what_to_do(audit)}"


def _smallness(audit: "Audit") -> str:
    if (size := len(audit.labels)) >= _LEARNT_FROM:
        return ""
    return (
        f"It was fitted on sets of {_LEARNT_FROM} samples and more: for {many(size, 'label')} it "
        "may be far off. "
    )


def _weakness(audit: "Audit") -> str:
    if not audit.run and audit.held_out and audit.held_out.accuracy >= _IN_SAMPLE:
        return (
            f"The probabilities predict {audit.held_out.accuracy:.1%} of the labels as given. "
            "Those of a model that was trained on these labels (in-sample) do so too, and hide the "
            "wrong ones. Give out-of-sample probabilities, such as those that cross_val_predict of "
            "scikit-learn makes. "
        )
    if (held_out := audit.held_out) is not None and _is_like_a_guess(audit, held_out):
        which = "held-out labels" if audit.run else "labels"
        better = "Probabilities of a better model"
        if audit.run:
            has_one = audit.run.plan.backbone not in (AUTO, NONE)
            better = "Another backbone" if has_one else "Embeddings of a pretrained network"
            better += " (--backbone)" if has_one else " (--features)"
        return (
            f"The model predicted {held_out.accuracy:.0%} of the {which}, hardly more than the "
            "commonest class alone would: most doubts may be its own errors. "
            f"{better} may tell more. "
        )
    if audit.run and held_out is None:
        return (
            f"The method {audit.run.plan.method} holds out no labels: labels that it "
            "memorised count as correct. The method auto detects them. "
        )
    return ""


def _is_like_a_guess(audit: "Audit", held_out: HeldOut) -> bool:
    """Whether it hardly misses fewer labels than the commonest class, and those by chance."""
    missed = 1 - np.bincount(audit.given).max() / len(audit.labels)
    fewer = missed - held_out.disagreement
    return bool(fewer <= _HARDLY * missed and fewer <= _ERRORS * held_out.standard_error)


def _what_it_is(audit: "Audit") -> str:
    reviewed = audit.findings.reviewed
    what = "the labels alone"
    if reviewed:
        what = f"the labels and {many(reviewed, 'reviewed one')}"
    return (
        f"an estimate from {what}: it was fitted on other data sets, and cannot see errors that "
        "depend on the inputs."
    )


def _what_to_do(audit: "Audit") -> str:
    size = min(_TO_CHECK, len(audit.labels))
    to_know = f"To know the rate to within about 5 points, check {size} labels"
    if size == len(audit.labels):
        to_know = f"To know the rate, check all {many(size, 'label')}"
    if audit.folder is None:
        return f"{to_know}: audit into a folder, then abstain verify FOLDER"
    folder, verified = quote(str(audit.folder)), audit.findings.verified
    if audit.findings.sample is not None and (why := verified.why):
        return (
            f"Of a random sample {many(verified.counted, 'label was', 'labels were')} checked. "
            f"To be measured: {why}. "
            f"Go on with: abstain verify {folder}"
        )
    if audit.sources["train"] is None:  # only whoever holds the data can show them
        return f"{to_know}: abstain sample {folder} --size {size}"
    return f"{to_know}: abstain verify {folder}"
