"""Wrong labels, planted on purpose: transition matrices, drawing from them, a record of the flips.

Everywhere ``T[i, j] = P(given = j | true = i)``, so rows sum to 1. A *rate* is a share of labels;
what it is the share of differs between kinds, and each kind says so.

>>> ids = ["a.png", "b.png", "c.png", "d.png"]
>>> manifest = plant([0, 1, 2, 0], ids, "pairflip", 0.5, seed=1, num_classes=3, exact=True)
>>> manifest.realised_rate
0.5
"""

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError

__all__ = [
    "KINDS",
    "InstanceNoise",
    "NoiseManifest",
    "check_transition",
    "corrupt",
    "instance_dependent",
    "pairflip",
    "plant",
    "symmetric",
    "symmetric_any",
    "transition",
]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


# --- transition matrices: T[i, j] = P(given = j | true = i); rows sum to 1 ---


def symmetric(num_classes: int, rate: float) -> FloatArray:
    """Each label is wrong with probability ``rate``, and then any of the others, evenly.

    The diagonal is 1 − r, the rest r / (m − 1): a flip never keeps the label.

    >>> symmetric(3, 0.5)
    array([[0.5 , 0.25, 0.25],
           [0.25, 0.5 , 0.25],
           [0.25, 0.25, 0.5 ]])
    """
    m, r = _check_num_classes(num_classes), _check_rate(rate)
    matrix = np.full((m, m), r / (m - 1))
    np.fill_diagonal(matrix, 1 - r)
    return matrix


def symmetric_any(num_classes: int, rate: float) -> FloatArray:
    """Each label is redrawn with probability ``rate``, from *all* classes, its own among them.

    Part of the literature calls this symmetric noise. Only r · (m − 1) / m of the labels end up
    wrong: "80%" of ten classes is 72% wrong. Figures for it do not compare with `symmetric`.

    >>> matrix = symmetric_any(10, 0.8)
    >>> print(f"{1 - matrix[0, 0]:.2f}")
    0.72
    """
    m, r = _check_num_classes(num_classes), _check_rate(rate)
    return (1 - r) * np.eye(m) + r / m


def pairflip(num_classes: int, rate: float) -> FloatArray:
    """Each label i becomes i + 1 (the last one becomes 0) with probability ``rate``.

    >>> pairflip(3, 0.25)
    array([[0.75, 0.25, 0.  ],
           [0.  , 0.75, 0.25],
           [0.25, 0.  , 0.75]])
    """
    m, r = _check_num_classes(num_classes), _check_rate(rate)
    return (1 - r) * np.eye(m) + r * np.roll(np.eye(m), 1, axis=1)


_TRANSITIONS: Mapping[str, Callable[[int, float], FloatArray]] = {
    "symmetric": symmetric,
    "symmetric-any": symmetric_any,
    "pairflip": pairflip,
}
_INSTANCE = "instance"
KINDS = (*_TRANSITIONS, _INSTANCE)
"""Every kind that `plant` knows; all but ``instance`` have a matrix."""


def transition(kind: str, num_classes: int, rate: float) -> FloatArray:
    """The transition matrix of a kind of noise named by a word, as a command line does.

    >>> transition("pairflip", 2, 0.25)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    if kind not in _TRANSITIONS:
        raise AbstainError(f"kind must be one of {', '.join(_TRANSITIONS)}, got {kind!r}")
    return _TRANSITIONS[kind](num_classes, rate)


def check_transition(matrix: npt.ArrayLike) -> FloatArray:
    """The matrix in float64, once it is known to be square, non-negative, with rows summing to 1.

    >>> check_transition([[0.75, 0.5], [0, 1]])
    Traceback (most recent call last):
    abstain.errors.AbstainError: rows of matrix must sum to 1 within 1e-06, row 0 sums to 1.25
    """
    try:
        checked = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AbstainError(f"matrix must be an array of numbers: {error}") from None
    if checked.ndim != 2 or checked.shape[0] != checked.shape[1] or checked.shape[0] < 2:
        raise AbstainError(f"matrix must be square, 2 × 2 or larger, got shape {checked.shape}")
    # "not all ≥ 0" rather than "any < 0", so that a NaN is refused too
    if not (checked >= 0).all():
        raise AbstainError(f"entries of matrix must be ≥ 0, got {checked[~(checked >= 0)][0]}")
    sums = checked.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    tolerance = 1e-6  # a float32 matrix of a thousand classes passes
    if abs(sums[worst] - 1) > tolerance:
        raise AbstainError(
            f"rows of matrix must sum to 1 within {tolerance}, row {worst} sums to {sums[worst]:g}"
        )
    return checked


# --- corrupting labels ---


def corrupt(
    labels: npt.ArrayLike,
    matrix: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    exact: bool = False,
) -> IntArray:
    """Draw a given label for every true one.

    Args:
        labels: True labels, integers in [0, m).
        matrix: T[i, j] = P(given = j | true = i), m × m.
        rng: Where the randomness comes from; the same state gives the same flips.
        exact: If false, every sample is drawn by itself and the number of wrong labels varies.
            If true, the *total* number of wrong labels is the expected one, Σ (1 − T[y, y]),
            rounded (halves to even): round(r · N) for symmetric and pairflip noise. The number per
            class still varies, and so do the targets, which are drawn from the off-diagonal row.

    Returns:
        New labels, int64; the input is left alone.

    >>> corrupt([0, 1, 2, 2], pairflip(3, 1.0), np.random.default_rng(0))
    array([1, 2, 0, 0])
    """
    transitions = check_transition(matrix)
    true = _check_labels(labels, len(transitions))
    _check_rng(rng)
    # Flip probabilities are sums of what is drawn from below, not 1 − diagonal: a row that rounds
    # to probability 1e-17 of a flip with nowhere to go cannot occur.
    cumulative = np.cumsum(transitions * ~np.eye(len(transitions), dtype=bool), axis=1)
    flip_probability = cumulative[:, -1]
    expected = float(np.bincount(true, minlength=len(transitions)) @ flip_probability)
    flips = _choose_flips(flip_probability[true], rng, _round(expected) if exact else None)
    given = true.copy()
    given[flips] = _draw_from_rows(cumulative, true[flips], rng)
    return given


class InstanceNoise(NamedTuple):
    """Labels given by `instance_dependent`, and how likely each was to be wrong."""

    given: IntArray
    flip_probability: FloatArray


def instance_dependent(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    num_classes: int,
    rate: float,
    rng: np.random.Generator,
    *,
    exact: bool = False,
) -> InstanceNoise:
    """Noise that depends on the input: some samples are harder, and each has its own wrong class.

    After the generator of Xia et al., "Part-dependent Label Noise: Towards Instance-dependent
    Label Noise", NeurIPS 2020 (arXiv:2006.07836). A sample is flipped with its own probability, a
    normal (deviation 0.1) around the rate, truncated; where to is a softmax of a random linear map
    of its features, one map for each true class. So samples that look alike are confused with the
    same class, and wrong labels form regions that a network can learn.

    Two departures keep the outcome independent of how the data happens to be scaled. The normal is
    cut (and, near 0 and 1, narrowed) evenly on both sides of the rate, so that its mean *is* the
    rate; cut to [0, 1] only, a rate of 5% would come out as 10%. Features are centred and the
    scores of each class brought to one spread, sharp enough that the best wrong class takes most
    flips, as it does with the original on normalised images.

    Args:
        features: Inputs, N × anything numeric.
        labels: True labels, integers in [0, num_classes).
        num_classes: Number of classes m.
        rate: Expected share of wrong labels.
        rng: Where the randomness comes from.
        exact: Whether to flip exactly round(rate · N) labels.

    >>> rng = np.random.default_rng(0)
    >>> features, labels = rng.normal(size=(1000, 5)), rng.integers(4, size=1000)
    >>> given, flip_probability = instance_dependent(features, labels, 4, 0.3, rng, exact=True)
    >>> float((given != labels).mean())
    0.3
    """
    m, r = _check_num_classes(num_classes), _check_rate(rate)
    true = _check_labels(labels, m)
    x = _check_features(features, len(true))
    _check_rng(rng)
    flip_probability = _truncated_normal(r, len(true), rng)
    flips = _choose_flips(flip_probability, rng, _round(r * len(true)) if exact else None)
    given = true.copy()
    mean = x.mean(axis=0, dtype=np.float64)
    for label in range(m):
        projection = rng.standard_normal((x.shape[1], m))
        of_class = true == label
        scores = x[of_class] @ projection - mean @ projection
        spread = float(np.sqrt(np.square(scores).sum() / max(scores.size, 1)))
        scores *= _SHARPNESS / (spread or 1.0)
        scores[:, label] = -np.inf
        # the largest of scores plus Gumbel noise is a draw from their softmax
        wrong = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        given[of_class] = np.where(flips[of_class], wrong, label)
    return InstanceNoise(given, flip_probability)


_SHARPNESS = 10.0
_DEVIATION = 0.1


def _truncated_normal(rate: float, size: int, rng: np.random.Generator) -> FloatArray:
    """Normal draws around the rate, redrawn until they lie within [0, 1] evenly around it."""
    half_width = min(rate, 1 - rate)
    deviation = min(_DEVIATION, half_width)
    values = rng.normal(rate, deviation, size)
    while (outside := np.abs(values - rate) > half_width).any():
        values[outside] = rng.normal(rate, deviation, int(outside.sum()))
    return values


def _choose_flips(
    probability: FloatArray, rng: np.random.Generator, count: int | None
) -> npt.NDArray[np.bool_]:
    """Which samples to flip: each by itself, or exactly ``count`` of them.

    Fixed-size draws are Pareto sampling (Rosén, 1997): the smallest ratios of random odds to
    wanted odds. Inclusion follows the probabilities closely; equal ones give a uniform subset.
    """
    u = rng.random(len(probability))
    if count is None:
        return u < probability
    possible = np.flatnonzero(probability)
    u, p = u[possible], probability[possible]
    with np.errstate(over="ignore", divide="ignore"):  # odds near 0: infinity, so last, is right
        order = np.argsort(u * (1 - p) / ((1 - u) * p))
    flips = np.zeros(len(probability), dtype=bool)
    flips[possible[order[:count]]] = True
    return flips


def _draw_from_rows(cumulative: FloatArray, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """One column for each entry of ``rows``, by the weights whose running sums are given.

    All rows are laid end to end as intervals [i, i + 1), so that one binary search serves every
    class: the loop over classes would pass over the labels once for each.
    """
    num_rows, num_columns = cumulative.shape
    total = cumulative[:, -1:]
    ends = np.arange(num_rows)[:, None] + np.divide(
        cumulative, total, out=np.ones_like(cumulative), where=total > 0
    )
    # i + u may round up to i + 1, which belongs to the next row
    points = np.minimum(rows + rng.random(len(rows)), np.nextafter(rows + 1.0, 0))
    columns: IntArray = np.searchsorted(ends.ravel(), points, side="right") - rows * num_columns
    return columns


def _round(expected: float) -> int:
    """Nearest whole number; a half that lost its last bits to floating point is still a half."""
    return round(round(expected, 6))


# --- the record of what was planted ---

_FORMAT = "abstain-noise-1"


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseManifest:
    """What was planted where: enough to know every flip, and to plant it again elsewhere.

    Attributes:
        ids: One unique id for each sample, strings or integers.
        given: Labels after planting; what training may see.
        true: Labels before planting; for evaluation only.
        num_classes: Number of classes m.
        kind: One of `KINDS`.
        rate: The rate that was asked for; `realised_rate` is the share that came out wrong.
        seed: Seed of the generator.
        exact: Whether the number of flips was fixed rather than drawn.
        matrix: T[i, j] = P(given = j | true = i); None where noise depends on the input.
        versions: Versions of abstain, numpy and python that drew the labels.

    >>> manifest = plant([0, 1, 1], [10, 11, 12], "symmetric", 1.0, seed=0, num_classes=2)
    >>> manifest.flipped
    array([ True,  True,  True])
    >>> manifest.replay([1, 1, 0], [12, 11, 10])
    array([0, 0, 1])
    """

    ids: npt.NDArray[Any]
    given: IntArray
    true: IntArray
    num_classes: int
    kind: str
    rate: float
    seed: int
    exact: bool
    matrix: FloatArray | None
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        # Also what stands between a file from elsewhere and the rest of the program.
        _check_num_classes(self.num_classes)
        _check_rate(self.rate)
        _check_seed(self.seed)
        if self.kind not in KINDS:
            raise AbstainError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        size = len(_check_ids(self.ids))
        for name in ("given", "true"):
            labels = _check_labels(getattr(self, name), self.num_classes, name)
            if len(labels) != size:
                raise AbstainError(f"{name} must have one label per id, {size}, got {len(labels)}")
        if (self.matrix is None) != (self.kind == _INSTANCE):
            raise AbstainError(f"matrix must be given unless kind is {_INSTANCE}, got {self.kind}")
        if self.matrix is not None and len(check_transition(self.matrix)) != self.num_classes:
            raise AbstainError(
                f"matrix must have {self.num_classes} rows, one per class, got {len(self.matrix)}"
            )

    @property
    def flipped(self) -> npt.NDArray[np.bool_]:
        """Which labels are wrong."""
        return np.not_equal(self.given, self.true)

    @property
    def realised_rate(self) -> float:
        """Share of labels that came out wrong."""
        return float(self.flipped.mean())

    def replay(self, labels: npt.ArrayLike, ids: npt.ArrayLike) -> IntArray:
        """The given labels of the same samples, in the order of ``ids``.

        Args:
            labels: True labels; must be those that were corrupted.
            ids: Their ids: the manifest's, each once, in any order.
        """
        other_ids = _check_ids(ids)
        true = _check_labels(labels, self.num_classes)
        if len(true) != len(other_ids):
            raise AbstainError(
                f"labels must have one label per id, {len(other_ids)}, got {len(true)}"
            )
        if _describe(other_ids) != _describe(self.ids):
            raise AbstainError(
                f"ids must be the manifest's {_describe(self.ids)}, got {_describe(other_ids)}"
            )
        ours, theirs = np.argsort(self.ids), np.argsort(other_ids)
        foreign = self.ids[ours] != other_ids[theirs]
        if foreign.any():
            unknown = np.setdiff1d(other_ids, self.ids)[0]
            raise AbstainError(f"ids must be the manifest's, got {unknown!s}, which it lacks")
        changed = self.true[ours] != true[theirs]
        if changed.any():
            first = int(changed.argmax())
            raise AbstainError(
                "labels must be those that were corrupted: "
                f"id {self.ids[ours[first]]!s} had {self.true[ours[first]]}, "
                f"got {true[theirs[first]]} (and {int(changed.sum()) - 1} more)"
            )
        given = np.empty_like(true)
        given[theirs] = self.given[ours]
        return given

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, whole or not at all; it holds no pickles."""
        target = Path(path)
        header = {
            "format": _FORMAT,
            "num_classes": int(self.num_classes),
            "kind": self.kind,
            "rate": float(self.rate),
            "seed": int(self.seed),
            "exact": bool(self.exact),
            "versions": dict(self.versions),
        }
        arrays: dict[str, Any] = {"ids": self.ids, "given": self.given, "true": self.true}
        if self.matrix is not None:
            arrays["matrix"] = self.matrix
        arrays["header"] = np.array(json.dumps(header))
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            try:
                with partial.open("wb") as file:
                    np.savez_compressed(file, **arrays)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise AbstainError(f"path must be writable, got {target}: {error}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; anything else is an `AbstainError`."""
        try:
            with np.load(path, allow_pickle=False) as file:
                header = json.loads(str(file["header"]))
                if header.pop("format") != _FORMAT:
                    raise AbstainError(f"its format is not {_FORMAT}")
                return cls(
                    ids=file["ids"],
                    given=file["given"],
                    true=file["true"],
                    matrix=file.get("matrix"),
                    **header,
                )
        except Exception as error:  # a damaged file makes NumPy, zipfile and json raise anything
            raise AbstainError(
                f"path must name a noise manifest, got {os.fspath(path)}: {error}"
            ) from error


def plant(
    labels: npt.ArrayLike,
    ids: npt.ArrayLike,
    kind: str,
    rate: float,
    seed: int,
    *,
    num_classes: int,
    exact: bool = False,
    features: npt.ArrayLike | None = None,
) -> NoiseManifest:
    """Corrupt labels by a kind of noise and a seed, and keep the record.

    Args:
        labels: True labels, integers in [0, num_classes).
        ids: One unique id for each label, strings or integers.
        kind: One of `KINDS`.
        rate: The rate, as the kind defines it.
        seed: Seed for the noise alone.
        num_classes: Number of classes; labels may lack some.
        exact: Fix the number of wrong labels instead of drawing it; see `corrupt`.
        features: Inputs, needed for ``instance`` noise only.

    >>> labels = ids = range(10)
    >>> manifest = plant(labels, ids, "symmetric", 0.4, seed=0, num_classes=10, exact=True)
    >>> int(manifest.flipped.sum())
    4
    """
    rng = np.random.default_rng(_check_seed(seed))
    true = _check_labels(labels, _check_num_classes(num_classes)).copy()
    if kind == _INSTANCE:
        if features is None:
            raise AbstainError(f"features must be given for kind {_INSTANCE}, got None")
        matrix = None
        given = instance_dependent(features, true, num_classes, rate, rng, exact=exact).given
    elif kind in _TRANSITIONS:
        matrix = transition(kind, num_classes, rate)
        given = corrupt(true, matrix, rng, exact=exact)
    else:
        raise AbstainError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    return NoiseManifest(
        ids=_check_ids(ids).copy(),
        given=given,
        true=true,
        num_classes=num_classes,
        kind=kind,
        rate=rate,
        seed=seed,
        exact=exact,
        matrix=matrix,
        versions={
            "abstain": _installed_version(),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    )


def _installed_version() -> str:
    try:
        return metadata.version("abstain")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "unknown"


# --- what users may get wrong ---


def _check_num_classes(num_classes: int) -> int:
    if not isinstance(num_classes, Integral) or num_classes < 2:
        raise AbstainError(f"num_classes must be an integer ≥ 2, got {num_classes!r}")
    return int(num_classes)


def _check_rate(rate: float) -> float:
    if not isinstance(rate, Real) or not 0 <= rate <= 1:
        raise AbstainError(f"rate must lie in [0, 1], got {rate!r}")
    return float(rate)


def _check_seed(seed: int) -> int:
    if not isinstance(seed, Integral) or seed < 0:
        raise AbstainError(f"seed must be an integer ≥ 0, got {seed!r}")
    return int(seed)


def _check_rng(rng: np.random.Generator) -> None:
    if not isinstance(rng, np.random.Generator):
        raise AbstainError(
            f"rng must be a numpy.random.Generator, got {rng!r}; "
            "make one with numpy.random.default_rng(seed)"
        )


def _check_labels(labels: npt.ArrayLike, num_classes: int, name: str = "labels") -> IntArray:
    checked = np.asarray(labels)
    if checked.ndim != 1 or checked.size == 0 or checked.dtype.kind not in "iu":
        raise AbstainError(
            f"{name} must be a non-empty one-dimensional array of integers, "
            f"got {checked.dtype} of shape {checked.shape}"
        )
    outside = (checked < 0) | (checked >= num_classes)
    if outside.any():
        first = int(outside.argmax())
        raise AbstainError(
            f"{name} must lie in [0, {num_classes}), got {checked[first]} at position {first}"
        )
    return checked.astype(np.int64, copy=False)


def _check_ids(ids: npt.ArrayLike) -> npt.NDArray[Any]:
    checked = np.asarray(ids)
    # Columns of data frames arrive as objects.
    if checked.dtype.kind == "O" and all(isinstance(item, str) for item in checked.flat):
        checked = checked.astype(str)
    if checked.ndim != 1 or checked.size == 0 or checked.dtype.kind not in "iuU":
        raise AbstainError(
            "ids must be a non-empty one-dimensional array of strings or of integers, "
            f"got {checked.dtype} of shape {checked.shape}"
        )
    values, counts = np.unique(checked, return_counts=True)
    if len(values) != len(checked):
        raise AbstainError(f"ids must be unique, got {values[counts > 1][0]!s} more than once")
    return checked


def _check_features(features: npt.ArrayLike, size: int) -> npt.NDArray[Any]:
    checked = np.asarray(features)
    if checked.ndim < 2 or len(checked) != size or checked.dtype.kind not in "biuf":
        raise AbstainError(
            f"features must be numbers of shape ({size}, …), one row per label, "
            f"got {checked.dtype} of shape {checked.shape}"
        )
    if not np.isfinite(checked).all():
        raise AbstainError("features must be finite, got NaN or infinity")
    return checked.reshape(size, -1)


def _describe(ids: npt.NDArray[Any]) -> str:
    return f"{len(ids)} {'strings' if ids.dtype.kind == 'U' else 'integers'}"
