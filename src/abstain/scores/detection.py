"""Measures of detection, where the true labels are known: planted errors, benchmarks."""

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError


@dataclass(frozen=True, kw_only=True)
class Detection:
    """Scores and flags against the truth; NaN where there is nothing to divide by."""

    wrong: int
    """Number of wrong labels."""
    rate: float
    """The noise rate."""
    auroc: float
    """Probability that a wrong label scores lower than a right one; ties count half."""
    average_precision: float
    """Mean precision over the ranks of the wrong labels, worst first."""
    precision: float
    """Share of the flagged labels that are wrong."""
    recall: float
    """Share of the wrong labels that are flagged."""

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def as_json(self) -> dict[str, float | None]:
        """As plain values; what is not a number is None."""
        values = {**asdict(self), "f1": self.f1}
        return {name: x if x == x else None for name, x in values.items()}


def detection(
    label_score: npt.ArrayLike, is_label_issue: npt.ArrayLike, wrong: npt.ArrayLike
) -> Detection:
    """Compare label scores (low = bad) and flags with what is wrong.

    >>> found = detection([0.1, 0.2, 0.9, 0.8], [True, True, False, False],
    ...                   wrong=[True, False, False, False])
    >>> found.auroc, found.precision, found.recall
    (1.0, 0.5, 1.0)
    """
    score = np.asarray(label_score, dtype=np.float64)
    flagged, truth = np.asarray(is_label_issue, dtype=bool), np.asarray(wrong, dtype=bool)
    if score.ndim != 1 or not score.shape == flagged.shape == truth.shape:
        raise AbstainError(
            "label_score, is_label_issue and wrong must have one value per sample, got the "
            f"shapes {score.shape}, {flagged.shape} and {truth.shape}"
        )
    hits = int((flagged & truth).sum())
    bad = int(truth.sum())
    return Detection(
        wrong=bad,
        rate=_share(bad, len(truth)),
        auroc=_auroc(score, truth),
        average_precision=_average_precision(score, truth),
        precision=_share(hits, int(flagged.sum())),
        recall=_share(hits, bad),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _auroc(score: npt.NDArray[np.float64], wrong: npt.NDArray[np.bool_]) -> float:
    """Mann and Whitney's U over the number of pairs."""
    from scipy.stats import rankdata

    bad, good = int(wrong.sum()), int((~wrong).sum())
    if not bad or not good:
        return float("nan")
    ranks = rankdata(-score)  # the worst last
    return float((ranks[wrong].sum() - bad * (bad + 1) / 2) / (bad * good))


def _average_precision(score: npt.NDArray[np.float64], wrong: npt.NDArray[np.bool_]) -> float:
    """Σ (recall gained) · (precision there), over the distinct scores; equal scores go together."""
    if not wrong.any():
        return float("nan")
    order = np.argsort(score, kind="stable")
    hits = np.cumsum(wrong[order])
    last_of_equals = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    found = hits[last_of_equals]
    precision = found / (last_of_equals + 1)
    gained = np.diff(found, prepend=0) / hits[-1]
    return float((gained * precision).sum())
