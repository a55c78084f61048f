"""The verdict on the labels of a data set, with all that it was made from."""

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from abstain.arguments import typed
from abstain.auditing.answers import (
    ANSWER,
    NO_CLASS,
    Answer,
    Answers,
    checked_answers,
    read_answers,
)
from abstain.auditing.caution import caution_of
from abstain.auditing.findings import Findings
from abstain.auditing.folder import AuditFolder
from abstain.auditing.summary import summary_of
from abstain.checks.check import Checks
from abstain.data import LabeledData
from abstain.data.reading import MEMORY_BUDGET
from abstain.embed.embedding import embed
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.folds import out_of_sample
from abstain.errors import AbstainError
from abstain.scores.detection import Detection, detection
from abstain.scores.evidence import UNKNOWN
from abstain.scores.held_out import HeldOut
from abstain.scores.interval import Interval
from abstain.scores.sampling import Sample
from abstain.scores.summaries import Duplicates, PairSummary, pair_summary
from abstain.scores.verdict import Verdict
from abstain.support.optional import require
from abstain.training.trained import Trained

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "id",
    "is_label_issue",
    "label_score",
    "given_label",
    "predicted_label",
    "confidence",
    "abstention",
    ANSWER,
    NO_CLASS,
)
BUDGET = 100
"""Labels that a person may want to look at first, in an hour."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Audit:
    """The verdict on the labels of a data set."""

    data: LabeledData
    """What was audited, with planted errors where the recipe asked for them."""
    findings: Findings
    """The noise rate, the labels left wrong and the flags, as evidence and answers give them."""
    duplicates: Duplicates
    trained: Trained | None
    """The training; None where probabilities were given."""
    held_out: HeldOut | None
    """How many held-out labels the model predicted, where labels were held out."""
    sources: Mapping[str, Any]
    """Where the data came from, in plain values; None in place of data in memory."""
    seconds: float
    folder: Path | None
    answers: Answers = field(default_factory=Answers)
    """What reviewers answered so far."""
    is_planted: bool = False
    """Whether errors were planted on purpose: only then true labels may be looked at."""
    test: LabeledData | None = None
    """The test set as a person sees it, where there is one."""
    checks: Checks | None = None
    """What else was found: duplicates, outliers, faulty images, …."""

    def __repr__(self) -> str:
        """The verdict in a line: a notebook would print every label."""
        rate = self.noise_rate
        return (
            f"<Audit of {self.data.name}: {rate.value:.1%} of {len(self.data):,} labels wrong "
            f"({self.confidence:.0%} interval {rate.low:.1%} to {rate.high:.1%}, {self.basis}), "
            f"{self.flagged:,} flagged>"
        )

    @property
    def verdict(self) -> Verdict:
        """P(wrong) of each label, and all that is read off it."""
        return self.findings.verdict

    @property
    def noise_rate(self) -> Interval:
        """Rate of wrong labels: measured where a random sample was checked, else estimated."""
        return self.findings.rate

    @property
    def measured(self) -> Interval | None:
        """Noise rate by the random sample; None before enough of it was checked."""
        return self.findings.measured

    @property
    def confidence(self) -> float:
        """How often such an interval of the noise rate covers."""
        return self.findings.confidence

    @property
    def basis(self) -> str:
        """The kind of the noise rate: measured and estimated intervals are never mixed."""
        return self.findings.basis

    @property
    def is_known(self) -> bool:
        """Whether every label was reviewed."""
        return self.findings.is_known

    @property
    def reviewed(self) -> dict[str, str]:
        """The class that a reviewer gave, by id."""
        return self.answers.labels

    @property
    def left_wrong(self) -> Interval:
        """The number of wrong labels among those that nobody reviewed: what is left to find."""
        return self.findings.left_wrong

    @typed()
    def with_reviewed(
        self,
        reviewed: Mapping[str, str | Answer] | str | os.PathLike[str],
        *,
        sample: Sample | None = None,
    ) -> "Audit":
        """A new verdict that takes these answers into account, beside earlier ones.

        A reviewed label is certain, and P(wrong) of the others is estimated anew, however the
        labels were chosen. Those of a random sample also measure the noise rate, if `reviewed`
        holds no others: else all of them count as chosen by hand. Nothing is written; `write`
        does that.

        Args:
            reviewed: The class of each checked sample, by id; in place of a class `UNSURE`, or
                `DROP` for a sample that is to leave the data set
                (`abstain.auditing.answers`). Or a CSV or Parquet file with the columns `id` and
                `checked_label`.
            sample: Labels that were drawn at random (`abstain.scores.sampling.draw`), all answers
                to which count as such; by default those that `abstain sample` handed out.
        """
        ids, classes = self.data.ids, self.data.classes
        answers = reviewed if isinstance(reviewed, Mapping) else read_answers(reviewed)
        drawn = sample or self._handed_out()
        rows = () if drawn is None else drawn.rows.tolist()
        if rows and max(rows) >= len(ids):
            raise AbstainError(
                f"must be of these {len(ids)} labels, got one with row {max(rows)}",
                argument="sample",
            )
        handed_out = {ids[row] for row in rows}
        known = self.answers.with_more(checked_answers(answers, ids, classes), handed_out)
        if sample is not None:
            known = replace(known, drawn=known.drawn | (handed_out & known.by_id.keys()))
        evidence = self.verdict.evidence
        findings = Findings.knowing(known, evidence, self.given, classes, ids, drawn)
        return replace(self, findings=findings, answers=known)

    def _handed_out(self) -> Sample | None:
        """The sample, which may have been enlarged since."""
        now = self.findings.sample
        kept = None if self.folder is None else AuditFolder(self.folder).sample(self.data.ids)
        if kept is None or (now is not None and len(now.rows) > len(kept.rows)):
            return now
        return kept

    @property
    def model(self) -> torch.nn.Module | None:
        """The trained model; None where probabilities were given."""
        return self.trained.model if self.trained else None

    @property
    def given(self) -> npt.NDArray[np.int64]:
        """The given label of each sample, as a class index."""
        return self.data.given.numpy()

    @property
    def flagged(self) -> int:
        """How many labels should be looked at."""
        return self.findings.flagged

    @property
    def caution(self) -> str | None:
        """What the noise rate rests on, and what would make it certain; None once measured."""
        return caution_of(self)

    @property
    def budget(self) -> int:
        """How many of the worst labels the expectation in the summary is for."""
        return min(BUDGET, self.verdict.to_check)

    @property
    def budgets(self) -> list[int]:
        """Budgets to choose from: 10, 20, 50, 100, …, and all that are flagged."""
        most = max(self.budget, self.flagged)
        steps = (digit * 10**power for power in range(1, 20) for digit in (1, 2, 5))
        smaller = itertools.takewhile(lambda size: size < most, steps)
        return sorted({*smaller, most, self.flagged} - {0})

    @property
    def planted(self) -> npt.NDArray[np.bool_] | None:
        """Which labels were made wrong on purpose; None where none were."""
        if not self.is_planted or self.data.true is None:
            return None
        planted: npt.NDArray[np.bool_] = self.given != self.data.true.numpy()
        return planted

    @cached_property
    def detection(self) -> Detection | None:
        """How right the verdict is about the labels that nobody has looked at.

        It is known only for errors planted on purpose.
        """
        if self.planted is None:
            return None
        left = np.sort(self.order[: self.verdict.to_check])
        # By log odds, as scores of hopeless labels round to the same number.
        flags = self.verdict.is_label_issue[left]
        return detection(-self.verdict.logits[left], flags, self.planted[left])

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Indices of all samples, the worst label first, and those with an answer last."""
        return self.verdict.order

    @cached_property
    def pairs(self) -> PairSummary:
        """Which class is taken for which among the flagged labels, the most frequent first."""
        return pair_summary(self.verdict.predicted_label, self.given, self.verdict.is_label_issue)

    @cached_property
    def probabilities(self) -> npt.NDArray[np.float32]:
        """(N, m) out-of-sample probabilities, in the order of the source.

        Of five linear heads on the features, each judges the samples whose labels it has not seen.
        Where the backbone was trained too, features are those of before: it has seen all labels.
        They are for other tools that ask for such probabilities; the verdict itself rests on what
        the training saw of each label, which ranks wrong labels better (docs/backbones.md).
        """
        trained = self.trained
        if trained and isinstance(trained.encoder, FineTuningEncoder):
            features = embed(trained.data, trained.encoder.backbone).within(MEMORY_BUDGET)
        elif trained and trained.encoder.sees == "table":
            features = trained.encoder.encode(trained.data)
        else:
            raise AbstainError(
                "probabilities need features: audit with a backbone, or with features=, got "
                + ("a network of its own" if trained else "probabilities that were given")
            )
        found = out_of_sample(features, trained.data.given, self.data.num_classes)
        return found.numpy()

    @cached_property
    def issues(self) -> "pa.Table":
        """Every label, the worst first: id, is_label_issue, label_score, given_label, …."""
        pa = require("pyarrow", "the table of issues")
        order, names = self.order, pa.array(self.data.classes, pa.string())
        reviewed, no_class = self.verdict.reviewed[order], np.full(len(order), None, object)
        no_class[self.verdict.unsure[order]] = "unsure"
        no_class[self.verdict.dropped[order]] = "drop"
        columns = {
            "id": pa.array(self.data.ids[:], pa.string()).take(order),
            "is_label_issue": self.verdict.is_label_issue[order],
            "label_score": self.verdict.label_score[order],
            "given_label": names.take(self.given[order]),
            "predicted_label": names.take(self.verdict.predicted_label[order]),
            "confidence": self.verdict.confidence[order],
            "abstention": self.verdict.evidence.abstention[order],
            ANSWER: names.take(pa.array(reviewed, mask=reviewed == UNKNOWN)),
            NO_CLASS: pa.array(no_class, pa.string()),
        }
        return pa.table({name: columns[name] for name in COLUMNS})

    def summary(self) -> dict[str, Any]:
        """The verdict in plain values, for summary.json and for machines."""
        return summary_of(self)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write the tables and, last, summary.json; each whole or not at all."""
        AuditFolder(folder).write(self)
