"""Findings: the noise rate, the labels left wrong and the flags, from evidence and answers.

They are computed here and nowhere else. The terminal, the report, `summary.json`, the review page
and `abstain compare` read them.

| answer | noise rate, estimated | noise rate, measured | flags | left wrong |
|---|---|---|---|---|
| a class | certain, and evidence on the others | certain | no flag | not counted |
| unsure | as without it | wrong or right: the interval has both | no flag | counted |
| drop | the sample is left out | wrong or right: the interval has both | no flag | not counted |
| none, before the last that counts | as without it | as unsure | as without it | counted |
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from abstain.auditing.answers import Answer, Answers
from abstain.auditing.verified import Verified, gone_through
from abstain.scores.evidence import Evidence
from abstain.scores.given import Labels
from abstain.scores.interval import Interval
from abstain.scores.measured_total import to_measured
from abstain.scores.sampling import Sample, answers_needed, measured_rate, wrong_unchecked
from abstain.scores.verdict import CONFIDENCE, Verdict, judge
from abstain.support.wording import many

MEASURED_CONFIDENCE = 0.95
"""Coverage of an interval that was measured on a random sample, whatever the noise."""
ENOUGH = 30
"""Least number of classes given to a random sample that measure the rate: fewer are less certain
than the estimate."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Findings:
    """All that an audit says of its labels, as one verdict and one random sample give it."""

    verdict: Verdict
    sample: Sample | None = None
    """Labels that were handed out to be checked at random, if any were."""
    drawn: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    """For each label of the sample, whether its answer was given for the sample."""

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        given: Labels,
        classes: Sequence[str],
        answers: Mapping[int, Answer],
        sample: Sample | None = None,
        drawn: Container[int] = (),
    ) -> "Findings":
        """The findings from evidence and answers.

        Args:
            evidence: On each label.
            given: (N,) given labels.
            classes: Their names.
            answers: By row.
            sample: Labels drawn at random, if any were.
            drawn: Rows whose answers were given for the sample.
        """
        number = {name: k for k, name in enumerate(classes)}
        verdict = judge(
            evidence,
            given,
            len(classes),
            {row: number[x.label] for row, x in answers.items() if x.label is not None},
            unsure=[row for row, x in answers.items() if x.kind == "unsure"],
            dropped=[row for row, x in answers.items() if x.kind == "drop"],
        )
        rows = [] if sample is None else sample.rows.tolist()
        return cls(
            verdict=verdict,
            sample=sample,
            drawn=np.array([row in drawn for row in rows], bool),
        )

    @classmethod
    def knowing(
        cls,
        answers: Answers,
        evidence: Evidence,
        given: Labels,
        classes: Sequence[str],
        ids: Sequence[str],
        sample: Sample | None,
    ) -> "Findings":
        """The findings from evidence and answers by id."""
        by_row = answers.by_row(ids)
        drawn = {row for row in by_row if ids[row] in answers.drawn}
        return cls.of(evidence, given, classes, by_row, sample, drawn)

    @cached_property
    def reviewed(self) -> int:
        """The number of labels that a reviewer gave a class."""
        return int(self.verdict.is_reviewed.sum())

    @property
    def found_wrong(self) -> int:
        """The number of these that are wrong."""
        return self.verdict.found_wrong

    @cached_property
    def unsure(self) -> int:
        """The number of labels that a reviewer could not decide: unresolved."""
        return int(self.verdict.unsure.sum())

    @cached_property
    def dropped(self) -> int:
        """The number of samples that a reviewer took out of the data set."""
        return int(self.verdict.dropped.sum())

    @cached_property
    def flagged(self) -> int:
        """The number of labels to look at."""
        return int(self.verdict.is_label_issue.sum())

    @cached_property
    def without_proposal(self) -> int:
        """Flagged labels for which no other class is likelier: doubtful, but not replaced."""
        same = self.verdict.predicted_label == self.verdict.given
        return int((self.verdict.is_label_issue & same).sum())

    @cached_property
    def is_known(self) -> bool:
        """Whether every label has a reviewed class, but for dropped samples."""
        return not self.verdict.is_open.any()

    @property
    def rate(self) -> Interval:
        """Rate of wrong labels: measured where a random sample was checked, else estimated."""
        return self.measured or self.verdict.rate

    @property
    def confidence(self) -> float:
        """Coverage of the interval of the noise rate."""
        return MEASURED_CONFIDENCE if self.measured else CONFIDENCE

    @property
    def basis(self) -> str:
        """The kind of the noise rate: measured and estimated intervals are never mixed."""
        if not self.measured:
            return self.estimate_basis
        found = self.verified
        kinds = ((found.unsure, "unsure"), (found.dropped, "dropped"))
        without = "".join(f", {n:,} of them {kind}" for n, kind in kinds if n)
        skipped = f", {found.skipped:,} skipped" if found.skipped else ""
        return f"measured on {many(found.answered, 'label')} checked at random{without}{skipped}"

    @property
    def estimate_basis(self) -> str:
        """The basis of the figures of parts: classes, and the worst labels."""
        if self.measured:
            return "estimated, in proportion to the measured noise rate"
        if self.is_known:
            return "known: every label was reviewed"
        kinds = ((self.reviewed, "reviewed"), (self.unsure, "unsure"), (self.dropped, "dropped"))
        if answers := [f"{n:,} of them {kind}" for n, kind in kinds if n]:
            return f"estimated from the labels, {', '.join(answers)}"
        return "estimated from the labels alone"

    @cached_property
    def verified(self) -> Verified:
        """Progress of checking the random sample."""
        enough = min(ENOUGH, (len(self.verdict) + 1) // 2)
        if self.sample is None:
            return Verified(enough=enough)
        answers = self._answered[self.sample.rows]
        answered = int(answers[self._places].sum())
        last = np.flatnonzero(self.drawn & answers)
        rows = self.sample.rows[self._places]
        counted = int(self.verdict.is_reviewed[rows].sum())
        unsure = int(self.verdict.unsure[rows].sum())
        end = int(last[-1]) + 1 if len(last) else 0
        return Verified(
            enough=enough,
            counted=counted,
            unsure=unsure,
            dropped=answered - counted - unsure,
            skipped=len(rows) - answered,
            waiting=int(answers[:end].sum()) - answered,
            gaps=int((~answers[:end]).sum()),
        )

    @cached_property
    def _answered(self) -> npt.NDArray[np.bool_]:
        return self.verdict.is_reviewed | self.verdict.unsure | self.verdict.dropped

    @cached_property
    def _places(self) -> npt.NDArray[np.int64]:
        """Places in the sample, with an answer or not, as far as somebody went through it."""
        if self.sample is None:
            return np.arange(0)
        return np.arange(gone_through(self._answered[self.sample.rows], self.drawn))

    @cached_property
    def measured(self) -> Interval | None:
        """Noise rate of the labels as given, by the random sample; valid whatever the noise.

        None before enough of it was checked, and once every label is known. Unsure, dropped and
        skipped ones are taken as right for the lower end, and as wrong for the upper one: people
        skip what is hard, so that the others alone are no random choice.
        """
        if self.sample is None or self.is_known or self.verified.missing:
            return None
        verdict, rows = self.verdict, self.sample.rows[self._places]
        stratum, has_class = self.sample.stratum[self._places], self.verdict.is_reviewed[rows]
        wrong = has_class & (verdict.reviewed[rows] != verdict.given[rows])

        def rate(chosen: npt.NDArray[np.bool_], is_wrong: npt.NDArray[np.bool_]) -> Interval:
            assert self.sample is not None
            sizes = self.sample.sizes
            return measured_rate(stratum[chosen], is_wrong[chosen], sizes, MEASURED_CONFIDENCE)

        every = np.ones(len(rows), bool)
        ends = rate(every, wrong).low, rate(has_class, wrong).value, rate(every, wrong | ~has_class)
        # What was reviewed for another reason is no part of the sample, but known all the same.
        found_right = self.reviewed - self.found_wrong
        least, most = self.found_wrong / len(verdict), 1 - found_right / len(verdict)
        low, high = np.clip([ends[0], ends[2].high], least, most).tolist()
        return Interval(value=min(max(ends[1], low), high), low=low, high=high)

    @cached_property
    def left_wrong(self) -> Interval:
        """The number of wrong labels left: among those without a reviewed class, not dropped."""
        if self.measured is None:
            return self.verdict.unseen
        verdict, total = self.verdict, len(self.verdict)
        assert self.sample is not None
        # The rate is that of all labels as given. Dropped ones may be right or wrong; those of the
        # sample are taken to be one or the other in the ends of the rate already.
        of_sample = int(verdict.dropped[self.sample.rows[self._places]].sum())
        wrong = float(verdict.wrong_probability[verdict.dropped].sum())
        kept = Interval(
            value=self.measured.value - wrong / total,
            low=self.measured.low - (self.dropped - of_sample) / total,
            high=self.measured.high - of_sample / total,
        )
        return wrong_unchecked(kept, total, self.reviewed + self.dropped, self.found_wrong)

    @cached_property
    def rate_left(self) -> Interval:
        """The noise rate of the data set once the reviewed classes are put in: what is left."""
        size, left = max(len(self.verdict) - self.dropped, 1), self.left_wrong
        return Interval(value=left.value / size, low=left.low / size, high=left.high / size)

    def expected_wrong(self, budget: int) -> Interval:
        """Expected number of wrong labels among the `budget` worst that nobody reviewed.

        An estimate, brought to the measured number of wrong labels left once that is known.
        """
        return self._of_open(self.verdict.expected_wrong(budget), budget)

    @cached_property
    def per_class(self) -> list[Interval]:
        """Noise rate among the labels given as class j, in the same way; NaN without labels."""
        verdict, m = self.verdict, self.verdict.num_classes
        if self.measured is None:
            return verdict.per_class
        wrong = verdict.is_reviewed & (verdict.reviewed != verdict.given)
        chosen = (~verdict.dropped, verdict.is_open, wrong & ~verdict.dropped)
        counts = [np.bincount(verdict.given[x], minlength=m).tolist() for x in chosen]

        def known(rate: Interval, size: int, open_: int, found: int) -> Interval:
            if not size:
                return rate
            ends = asdict(rate).items()
            part = Interval(**{name: max(x * size - found, 0.0) for name, x in ends})
            ends = asdict(self._of_open(part, open_)).items()
            return Interval(**{name: (found + x) / size for name, x in ends})

        return [known(*one) for one in zip(verdict.per_class, *counts, strict=True)]

    def _of_open(self, part: Interval, size: int) -> Interval:
        """The number of wrong labels among some without a reviewed class, from its estimate."""
        if self.measured is None:
            return part
        return to_measured(
            part,
            size,
            estimated=self.verdict.unseen.value,
            measured=self.left_wrong,
            total=int(self.verdict.is_open.sum()),
        )

    @property
    def halved_by(self) -> int | None:
        """About how many more answers to the random sample would halve the interval.

        None where that cannot be said: a sample without a class does not get narrower.
        """
        counted, total = self.verified.counted, len(self.verdict)
        if len(self._places) > counted or not 0 < counted < total:
            return None
        return answers_needed(counted, total)

    def as_json(self) -> dict[str, Any]:
        """The findings in plain values: what summary.json and the review page say."""
        basis: dict[str, Any] = {"confidence": self.confidence, "basis": self.basis}
        if self.measured:
            basis["checked"] = self.verified.answered
        return {
            "noise_rate": {**plain(self.rate), **basis},
            "left_wrong": {**plain(self.left_wrong), **basis},
            "flagged": self.flagged,
            "flagged_without_proposal": self.without_proposal,
            "reviewed": self.reviewed,
            "found_wrong": self.found_wrong,
            "unsure": self.unsure,
            "dropped": self.dropped,
            "halved_by": self.halved_by,
            "verified": {**self.verified.as_json(), "is_measured": self.measured is not None},
        }


def plain(interval: Interval) -> dict[str, float | None]:
    """As plain values: JSON has no NaN, which is the rate of a class without labels."""
    return {name: x if x == x else None for name, x in asdict(interval).items()}
