"""The verdict on the labels of a data set: its figures, and how it is written to a folder.

An audit's folder is that of its run (recipe, model, history, ledger) with the verdict beside:
issues.csv (every label, the worst first), issues.parquet (the same, and other faults of the sample:
duplicates, outliers, …), weights.parquet (how probable it is that a label is right),
evidence.parquet (what that was judged from), summary.json (written last: a folder that has it is
whole), report.html, which `abstain.report` adds, and what was drawn and reviewed
(`abstain.auditing.reviewed`).
"""

import itertools
import json
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
from abstain.auditing.caution import caution_of
from abstain.auditing.kept_evidence import keep_evidence
from abstain.auditing.measured import ENOUGH, MEASURED_CONFIDENCE, gone_through, measure
from abstain.auditing.reviewed import (
    Kept,
    checked_answers,
    keep_answers,
    keep_sample,
    kept_answers,
    kept_sample,
    read_answers,
    rows_of,
)
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
from abstain.scores.sampling import Sample, wrong_unchecked
from abstain.scores.summaries import Duplicates, PairSummary, pair_summary
from abstain.scores.verdict import CONFIDENCE, Verdict, judge
from abstain.support.files import publish, publish_text
from abstain.support.optional import require
from abstain.support.spreadsheets import for_spreadsheets
from abstain.support.wording import many
from abstain.training.saving.run_folder import RunFolder
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
    "checked_label",
)
BUDGET = 100
"""Labels that a person may want to look at first, in an hour."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Audit:
    """The verdict on the labels of a data set."""

    data: LabeledData
    """What was audited, with planted errors where the recipe asked for them."""
    verdict: Verdict
    duplicates: Duplicates
    detection: Detection | None
    """How much of the verdict is right, known only for errors planted on purpose."""
    trained: Trained | None
    """The training; None where probabilities were given."""
    held_out: HeldOut | None
    """How many held-out labels the model predicted, where labels were held out."""
    sources: Mapping[str, Any]
    """Where the data came from, in plain values; None in place of data in memory."""
    seconds: float
    folder: Path | None
    sample: Sample | None = None
    """Labels that were handed out to be checked at random, if any were."""
    kept: Kept = field(default_factory=Kept)
    """Labels that somebody checked."""
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
    def noise_rate(self) -> Interval:
        """Rate of wrong labels: measured where a random sample was checked, else estimated."""
        return self.measured or self.verdict.rate

    @property
    def confidence(self) -> float:
        """How often such an interval of the noise rate covers."""
        return MEASURED_CONFIDENCE if self.measured else CONFIDENCE

    @property
    def basis(self) -> str:
        """What the noise rate rests on: the two kinds of interval are never mixed."""
        if self.measured and not self.is_known:
            return f"measured on {many(self.checked, 'label')} checked at random"
        return self.estimate_basis

    @property
    def estimate_basis(self) -> str:
        """What all figures rest on but the noise rate, which may be measured."""
        if self.is_known:
            return "known: every label was reviewed"
        if self.kept.answers:
            return f"estimated from the labels, {len(self.kept.answers):,} of them reviewed"
        return "estimated from the labels alone"

    @cached_property
    def measured(self) -> Interval | None:
        """Noise rate by the random sample that was checked; valid whatever the noise.

        None before enough of it was: a few answers are less certain than the estimate.
        """
        places = self._checked_places
        if self.sample is None or len(places) < self.enough:
            return None
        return measure(self.verdict, self.sample, places)

    @cached_property
    def _checked_places(self) -> npt.NDArray[np.int64]:
        """Places in the sample that were checked, as far as somebody went through it."""
        if self.sample is None:
            return np.arange(0)
        rows = self.sample.rows
        drawn = np.array([self.data.ids[row] in self.kept.drawn for row in rows.tolist()], bool)
        return gone_through(self.verdict.is_reviewed[rows], drawn)

    @property
    def enough(self) -> int:
        """Answers to a random sample from which on they measure the noise rate."""
        return min(ENOUGH, (len(self.data) + 1) // 2)

    @property
    def is_known(self) -> bool:
        """Whether every label was reviewed."""
        return len(self.kept.answers) == len(self.data)

    @property
    def checked(self) -> int:
        """How many labels of the random sample were checked."""
        return len(self._checked_places)

    @property
    def reviewed(self) -> dict[str, str]:
        """The class that a reviewer gave, by id."""
        return dict(self.kept.answers)

    @cached_property
    def left_wrong(self) -> Interval:
        """How many of the labels that nobody reviewed are wrong: what is left to find."""
        if self.measured is None:
            return self.verdict.unseen
        return wrong_unchecked(
            self.measured, len(self.data), len(self.kept.answers), self.verdict.found_wrong
        )

    @typed()
    def with_reviewed(
        self,
        reviewed: Mapping[str, str] | str | os.PathLike[str],
        *,
        sample: Sample | None = None,
    ) -> "Audit":
        """A new verdict that takes these checked labels into account, beside earlier ones.

        A reviewed label is certain, and P(wrong) of the others is estimated anew, however the
        labels were chosen. Those of a random sample also measure the noise rate, if `reviewed`
        holds no others: else all of them count as chosen by hand. Nothing is written; `write`
        does that.

        Args:
            reviewed: The class of each checked sample, by id; or a CSV or Parquet file with the
                columns `id` and `checked_label`.
            sample: Labels that were drawn at random (`abstain.scores.sampling.draw`), all answers
                to which count as such; by default those that `abstain sample` handed out.
        """
        answers = reviewed if isinstance(reviewed, Mapping) else read_answers(reviewed)
        drawn = sample or self._handed_out()
        rows = () if drawn is None else drawn.rows.tolist()
        if rows and max(rows) >= len(self.data):
            raise AbstainError(
                f"must be of these {len(self.data)} labels, got one with row {max(rows)}",
                argument="sample",
            )
        handed_out = {self.data.ids[row] for row in rows}
        kept = self.kept.with_more(checked_answers(answers, self.data), handed_out)
        if sample is not None:
            kept = replace(kept, drawn=kept.drawn | (handed_out & kept.answers.keys()))
        found = rows_of(kept.answers, self.data)
        verdict = judge(self.verdict.evidence, self.given, self.data.num_classes, found)
        detection = None if self.detection is None else detected(verdict, self.data)
        return replace(self, verdict=verdict, sample=drawn, kept=kept, detection=detection)

    def _handed_out(self) -> Sample | None:
        """The sample, which may have been enlarged since."""
        kept = None if self.folder is None else kept_sample(self.folder, self.data.ids)
        if kept is None or (self.sample is not None and len(self.sample.rows) > len(kept.rows)):
            return self.sample
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
        return int(self.verdict.is_label_issue.sum())

    @property
    def without_proposal(self) -> int:
        """Flagged labels for which no other class is likelier: doubtful, but not replaced."""
        same = self.verdict.predicted_label == self.given
        return int((self.verdict.is_label_issue & same).sum())

    @property
    def caution(self) -> str | None:
        """What the noise rate rests on, and what would make it certain; None once measured."""
        return caution_of(self)

    @property
    def budget(self) -> int:
        """How many of the worst labels the expectation in the summary is for."""
        return min(BUDGET, len(self.data) - len(self.kept.answers))

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
        if self.detection is None or self.data.true is None:
            return None
        planted: npt.NDArray[np.bool_] = self.given != self.data.true.numpy()
        return planted

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Indices of all samples, the worst label first, and what was reviewed last."""
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
        reviewed = self.verdict.reviewed[order]
        columns = {
            "id": pa.array(self.data.ids[:], pa.string()).take(order),
            "is_label_issue": self.verdict.is_label_issue[order],
            "label_score": self.verdict.label_score[order],
            "given_label": names.take(self.given[order]),
            "predicted_label": names.take(self.verdict.predicted_label[order]),
            "confidence": self.verdict.confidence[order],
            "abstention": self.verdict.evidence.abstention[order],
            "checked_label": names.take(
                pa.array(reviewed, mask=reviewed == UNKNOWN),
            ),
        }
        return pa.table({name: columns[name] for name in COLUMNS})

    def summary(self) -> dict[str, Any]:
        """The verdict in plain values, for summary.json and for machines."""
        return summary_of(self)

    def _issues_and_faults(self) -> "pa.Table":
        """The table of issues with the columns of the other checks."""
        table = self.issues
        if self.checks is not None:
            found = self.checks.table(self.data.ids).take(self.order)
            for name in found.column_names[1:]:  # the first is the id
                table = table.append_column(name, found.column(name))
        return table

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write the tables and, last, summary.json; each whole or not at all."""
        pa = require("pyarrow", "writing issues")
        csv = require("pyarrow.csv", "writing issues")
        parquet = require("pyarrow.parquet", "writing issues")
        place, table, whole = Path(folder), self.issues, self._issues_and_faults()
        right = 1 - self.verdict.wrong_probability.astype(np.float64)
        weights = pa.table({"id": pa.array(self.data.ids[:], pa.string()), "weight": right})
        text = json.dumps(self.summary(), indent=2, default=str) + "\n"
        with RunFolder(place).writing():
            self._keep_reviews(place, pa.array(self.data.ids[:], pa.string()))
            keep_evidence(place, self.verdict.evidence, self.given)
            publish(place / "issues.parquet", lambda path: parquet.write_table(whole, path))
            publish(place / "issues.csv", lambda path: csv.write_csv(for_spreadsheets(table), path))
            publish(place / "weights.parquet", lambda path: parquet.write_table(weights, path))
            publish_text(place / "summary.json", text)

    def _keep_reviews(self, place: Path, ids: "pa.Array") -> None:
        if lost := kept_answers(place).answers.keys() - self.kept.answers.keys():
            raise AbstainError(
                f"must hold no answers that this verdict does not know, got {place} with "
                f"{many(len(lost), 'such answer')}",
                argument="folder",
                remedy="audit(folder=…, resume=True) knows them",
            )
        if self.kept.answers:
            keep_answers(place, self.kept)
        if self.sample is not None and kept_sample(place, self.data.ids) is None:
            keep_sample(place, self.sample, ids, len(self.sample.rows))


def detected(verdict: Verdict, data: LabeledData) -> Detection:
    """How right the verdict is about the labels that nobody reviewed, where errors were planted."""
    assert data.true is not None
    left = ~verdict.is_reviewed
    wrong = verdict.given != data.true.numpy()
    # By log odds, as scores of hopeless labels round to the same number.
    return detection(-verdict.logits[left], verdict.is_label_issue[left], wrong[left])
