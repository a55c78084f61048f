"""The verdict on the labels of a data set, with all that it was made from."""

import itertools
import os
from collections.abc import Mapping
from contextlib import suppress
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
from abstain.auditing.folder import COLUMNS, Absent, AuditFolder
from abstain.auditing.out_of_sample import probabilities_of
from abstain.auditing.run import Run
from abstain.auditing.summary import summary_of
from abstain.checks.check import Checks
from abstain.data import LabeledData
from abstain.data.source import Source
from abstain.errors import AbstainError
from abstain.scores.detection import Detection, detection
from abstain.scores.evidence import UNKNOWN
from abstain.scores.held_out import HeldOut
from abstain.scores.interval import Interval
from abstain.scores.sampling import Sample
from abstain.scores.summaries import Duplicates, PairSummary, pair_summary
from abstain.scores.verdict import Verdict
from abstain.support.optional import require

if TYPE_CHECKING:
    import pyarrow as pa

    from abstain.training.trained import Trained

BUDGET = 100
"""Labels that a person may want to look at first, in an hour."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Audit:
    """The verdict on the labels of a data set."""

    labels: LabeledData
    """Ids, classes and labels, with planted errors where the recipe asked for them.

    Its inputs are not there (`Absent`) where the audit was read from its folder.
    """
    findings: Findings
    """The noise rate, the labels left wrong and the flags, as evidence and answers give them."""
    duplicates: Duplicates
    run: Run | None
    """The training without model and data; None where probabilities were given."""
    held_out: HeldOut | None
    """Number of held-out labels that the model predicted, where labels were held out."""
    sources: Mapping[str, Any]
    """Sources of the data, in plain values; None in place of data in memory."""
    seconds: float
    folder: Path | None
    answers: Answers = field(default_factory=Answers)
    """The answers of reviewers so far."""
    is_planted: bool = False
    """Whether errors were planted on purpose: only then true labels may be looked at."""
    ran: "Trained | None" = None
    """The training, where it is in memory."""
    test: LabeledData | None = None
    """The test set as a person sees it, where there is one in memory."""
    checks: Checks | None = None
    """Other issues of the data: duplicates, outliers, faulty images, …."""

    @classmethod
    def read(cls, folder: AuditFolder, data: LabeledData | None = None) -> "Audit":
        """Read a finished audit from its folder, with all answers that this has now.

        Args:
            folder: Of the audit.
            data: What was audited, where it lay in memory; else it is loaded when asked for.
        """
        summary, inputs = folder.summary, folder.verdict_inputs
        labels = LabeledData(
            inputs=Absent(folder, len(inputs.given)),
            given=torch.tensor(inputs.given),
            classes=tuple(folder.classes),
            ids=folder.ids,
            kind=summary["inputs"],
            true=None if inputs.true is None else torch.tensor(inputs.true),
            name=summary["name"],
            skipped=inputs.skipped,
        )
        if data is not None:
            if list(data.ids) != folder.ids or data.classes != labels.classes:
                raise AbstainError(
                    f"must be what was audited in {folder.folder}, got other samples or classes",
                    argument="source",
                )
            labels = replace(data.as_shown, given=labels.given, true=labels.true)
        return cls(
            labels=labels,
            findings=folder.findings(),
            duplicates=inputs.duplicates,
            run=Run.read(folder.folder, summary),
            held_out=inputs.held_out,
            sources=summary["sources"],
            seconds=summary["seconds"],
            folder=folder.folder,
            answers=folder.answers(),
            is_planted=inputs.true is not None,
            checks=folder.checks(),
        )

    def __repr__(self) -> str:
        """The verdict in a line: a notebook would print every label."""
        rate = self.noise_rate
        return (
            f"<Audit of {self.labels.name}: {rate.value:.1%} of {len(self.labels):,} labels wrong "
            f"({self.confidence:.0%} interval {rate.low:.1%} to {rate.high:.1%}, {self.basis}), "
            f"{self.flagged:,} flagged>"
        )

    def _repr_html_(self) -> str:
        """The headline, the worst labels and the classes, as a notebook shows them."""
        from abstain.report.notebook import render_notebook

        return render_notebook(self)

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
        """Coverage of the interval of the noise rate."""
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
        ids, classes = self.labels.ids, self.labels.classes
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
        kept = None if self.folder is None else AuditFolder(self.folder).sample(self.labels.ids)
        if kept is None or (now is not None and len(now.rows) > len(kept.rows)):
            return now
        return kept

    @cached_property
    def data(self) -> LabeledData:
        """The audited data as a person sees it; loaded on first use, if it is not in memory."""
        absent = self.labels.inputs
        return absent.load(self.labels) if isinstance(absent, Absent) else self.labels

    @cached_property
    def shown(self) -> LabeledData:
        """The same; without inputs where its source is gone, or was in memory."""
        try:
            return self.data
        except (AbstainError, OSError):
            return self.labels

    @cached_property
    def test_shown(self) -> LabeledData | None:
        """The test set as a person sees it, where there is one; loaded when asked for."""
        if self.test is None and isinstance(self.labels.inputs, Absent):
            with suppress(AbstainError, OSError):
                test = Source.found_again(self.sources).load()[1]
                return None if test is None else test.as_shown
        return self.test

    @cached_property
    def trained(self) -> "Trained | None":
        """The training; loaded when asked for. None where probabilities were given."""
        if self.ran is None and self.run is not None:
            from abstain.training.train import train

            return train(folder=self.folder, resume=True)
        return self.ran

    @cached_property
    def model(self) -> torch.nn.Module | None:
        """The trained model; None where probabilities were given."""
        if self.ran is None and self.run is not None and self.run.folder is not None:
            return self.run.folder.load_model()[0]
        return self.ran.model if self.ran else None

    @property
    def given(self) -> npt.NDArray[np.int64]:
        """The given label of each sample, as a class index."""
        return self.labels.given.numpy()

    @property
    def flagged(self) -> int:
        """Number of flagged labels."""
        return self.findings.flagged

    @property
    def caution(self) -> str | None:
        """The limits of the noise rate, and the remedy; None once it is measured."""
        return caution_of(self)

    @property
    def budget(self) -> int:
        """Number of worst labels that the expectation in the summary is for."""
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
        if not self.is_planted or self.labels.true is None:
            return None
        planted: npt.NDArray[np.bool_] = self.given != self.labels.true.numpy()
        return planted

    @cached_property
    def detection(self) -> Detection | None:
        """Measure the verdict on the labels that nobody has looked at.

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

        For at most 2,000 samples with features they are leave-one-out predictions, and the
        verdict rests on them. Of more, each of five linear heads judges the samples whose labels it
        has not seen: these are for other tools that ask for such probabilities, and the verdict
        rests on what the training saw, which ranks wrong labels better (docs/backbones.md).
        """
        if self.trained is None:
            raise AbstainError(
                "probabilities need features: audit with a backbone, or with features=, got "
                "probabilities that were given"
            )
        return probabilities_of(self.trained)

    @cached_property
    def issues(self) -> "pa.Table":
        """Every label, the worst first: id, is_label_issue, label_score, given_label, …."""
        pa = require("pyarrow", "the table of issues")
        order, names = self.order, pa.array(self.labels.classes, pa.string())
        reviewed, no_class = self.verdict.reviewed[order], np.full(len(order), None, object)
        no_class[self.verdict.unsure[order]] = "unsure"
        no_class[self.verdict.dropped[order]] = "drop"
        columns = {
            "id": pa.array(self.labels.ids[:], pa.string()).take(order),
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
