"""Every check of a data set in one call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from abstain.checks.classes import class_imbalance
from abstain.checks.duplicates import between, near_duplicates, sets_of
from abstain.checks.empty import empty
from abstain.checks.giveaways import Giveaway, giveaways
from abstain.checks.groups import weak_groups
from abstain.checks.images import Measures, image_issues, measure
from abstain.checks.neighbours import NEIGHBOURS, Index, Neighbours, rows_of
from abstain.checks.outliers import outliers
from abstain.checks.rules import Floats, Ints, Issues, Mask
from abstain.data import LabeledData
from abstain.data.identity import fingerprints
from abstain.data.readers.images import LazyImages
from abstain.embed.store.shards import Features
from abstain.errors import AbstainError, DataError
from abstain.scores.evidence import Evidence
from abstain.scores.given import checked_labels
from abstain.support.optional import require
from abstain.support.wording import did_you_mean, many

if TYPE_CHECKING:
    import pyarrow as pa

Columns: TypeAlias = dict[str, npt.NDArray[Any]]
TestSet: TypeAlias = tuple[LabeledData, Tensor | Floats | Features | None]

ALL = ("duplicates", "outliers", "imbalance", "groups", "images", "empty", "columns")
"""Every check, by the name that a user gives."""
NO_FEATURES = "there are no features of the inputs, such as those of a backbone"
_WORST = 20
_SHOWN_IN_SET = 10


@dataclass(frozen=True, kw_only=True)
class Checks:
    """The result of all checks: columns by sample, and checks that were skipped."""

    columns: Mapping[str, npt.NDArray[Any]] = field(repr=False)
    """Columns by name, (N,) each: `is_NAME_issue`, `NAME_score` and what belongs to them."""
    skipped: Mapping[str, str]
    """Checks that could not be made, or not in full, and why."""
    giveaways: tuple[Giveaway, ...] = ()
    """Columns that give the label away."""

    @property
    def issues(self) -> tuple[str, ...]:
        """Names of the issues that were checked."""
        flags = (x for x in self.columns if x.startswith("is_"))
        return tuple(x.removeprefix("is_").removesuffix("_issue") for x in flags)

    def unchecked(self, why: str = NO_FEATURES) -> tuple[str, ...]:
        """Checks that were not made, or not in full, for this reason."""
        return tuple(name for name, reason in self.skipped.items() if why in reason)

    @property
    def summary(self) -> dict[str, int]:
        """The number of samples with each issue."""
        return {x: int(self.columns[f"is_{x}_issue"].sum()) for x in self.issues}

    @property
    def leakage(self) -> str | None:
        """A warning for samples that are in the test set as well; None if there are none."""
        if not (number := self.summary.get("test_duplicate", 0)):
            return None
        return (
            f"{many(number, 'training sample')} also in the test set, identical or nearly so. "
            "Accuracy measured there is too high: remove each from one of the two "
            "(test_duplicate_id in issues.parquet)."
        )

    def worst(self, issue: str, most: int = _WORST) -> Ints:
        """Rows of samples that have an issue, the worst first."""
        if issue not in self.issues:
            raise AbstainError(
                f"must be one that was checked: {', '.join(self.issues) or 'none was'}, got "
                f"{issue!r}{did_you_mean(issue, self.issues)}",
                argument="issue",
            )
        rows = np.flatnonzero(self.columns[f"is_{issue}_issue"])
        order = np.argsort(self.columns[f"{issue}_score"][rows], kind="stable")
        return rows[order[:most]]

    @property
    def near_duplicate_sets(self) -> list[Ints]:
        """The rows of each set of near duplicates."""
        return sets_of(self.columns["near_duplicate_set"])

    def table(self, ids: Sequence[str]) -> "pa.Table":
        """A table of all columns with the ids of the samples, in their order.

        `near_duplicate_sets` are the ids of at most ten others of a sample's set.
        """
        pa = require("pyarrow", "a table of issues")
        columns = {"id": [str(x) for x in ids], **self.columns}
        if "near_duplicate_set" in columns:
            near: list[list[str]] = [[] for _ in ids]
            for rows in self.near_duplicate_sets:
                shown = rows[: _SHOWN_IN_SET + 1]
                for row in rows:
                    near[row] = [str(ids[k]) for k in shown if k != row][:_SHOWN_IN_SET]
            columns["near_duplicate_sets"] = pa.array(near, pa.list_(pa.string()))
        return pa.table(columns)


def check(
    data: LabeledData,
    features: Tensor | Floats | Features | None,
    given: npt.ArrayLike | None = None,
    evidence: Evidence | None = None,
    checks: Sequence[str] = ALL,
    test: TestSet | None = None,
    *,
    flagged: Mask | None = None,
    without: str = NO_FEATURES,
    prints: Ints | None = None,
) -> Checks:
    """Look for faults of a data set other than wrong labels.

    Scores lie in [0, 1], the lower the worse, as those of cleanlab's Datalab.

    Args:
        data: The samples. Where a model sees other inputs than a person, the latter are checked.
        features: (N, columns), finite: of a backbone, or a table as it is encoded.
        given: (N,) given labels; those of the data by default.
        evidence: Of an audit; without, weak groups are skipped.
        checks: Names out of `ALL`.
        test: A test set and its features, in which duplicates are sought too.
        flagged: (N,) labels that are probably wrong: no column needs to predict these.
        without: Where there are no features, why.
        prints: (N,) fingerprints of the samples, if they were taken already.

    >>> import torch
    >>> rng = np.random.default_rng(0)
    >>> table = torch.from_numpy(rng.random((200, 8)).astype(np.float32))
    >>> table[7], table[8] = table[6], 30.0
    >>> data = LabeledData(inputs=table, given=torch.arange(200) % 2, classes=("a", "b"),
    ...                    ids=[str(k) for k in range(200)], kind="table")
    >>> found = check(data, table, checks=("duplicates", "outliers", "groups"))
    >>> found.issues, found.summary["near_duplicate"], found.near_duplicate_sets
    (('near_duplicate', 'conflicting_duplicate', 'outlier'), 2, [array([6, 7])])
    >>> found.worst("outlier", 1), found.skipped
    (array([8]), {'groups': 'there is no evidence from a model'})
    """
    for name in checks:
        if name not in ALL:
            raise AbstainError(
                f"must be of {', '.join(ALL)}, got {name!r}{did_you_mean(name, ALL)}",
                argument="checks",
            )
    labels = checked_labels(data.given if given is None else given, len(data)).astype(np.int64)
    asked = _Asked(data, labels, features, evidence, test, flagged, without, prints)
    columns: Columns = {}
    for name in (x for x in ALL if x in checks):
        try:
            columns |= _CHECKS[name](asked)
        except (_CannotError, DataError) as why:  # what is only shown may not be there
            asked.skipped[name] = str(why)
    return Checks(columns=columns, skipped=asked.skipped, giveaways=asked.giveaways)


class _CannotError(Exception):
    """The reason to skip a check."""


@dataclass
class _Asked:
    """The data to check, and intermediate results that several checks share."""

    data: LabeledData
    given: Ints
    features: Tensor | Floats | Features | None
    evidence: Evidence | None
    test: TestSet | None
    flagged: Mask | None
    without: str
    prints: Ints | None
    skipped: dict[str, str] = field(default_factory=dict)
    giveaways: tuple[Giveaway, ...] = ()

    @cached_property
    def shown(self) -> LabeledData:
        return self.data.as_shown

    @cached_property
    def index(self) -> Index:
        size = len(self.data)
        if self.features is None:
            raise _CannotError(self.without)
        if len(self.features) != size:
            raise AbstainError(
                f"must have a row for each of {many(size, 'sample')}, got {len(self.features)}",
                argument="features",
            )
        if size <= NEIGHBOURS:
            raise _CannotError(f"it takes more than {NEIGHBOURS} samples, got {size}")
        return Index.of(rows_of(self.features))

    @cached_property
    def neighbours(self) -> Neighbours:
        return self.index.neighbours()

    @cached_property
    def measures(self) -> Measures:
        return measure(self.shown.inputs)

    @property
    def blank(self) -> Mask:
        """Samples that hold nothing; images that are there and have one shade."""
        if self.shown.kind == "image":
            blank: Mask = self.measures.contrast == 0
            return blank
        return empty(self.shown).is_issue


def _issue(name: str, issues: Issues) -> Columns:
    return {f"is_{name}_issue": issues.is_issue, f"{name}_score": issues.score}


def _duplicates(asked: _Asked) -> Columns:
    # What is only shown need not even be there.
    prints = fingerprints(asked.data) if asked.prints is None else asked.prints
    try:
        neighbours: Neighbours | None = asked.neighbours
    except _CannotError as why:
        neighbours = None
        asked.skipped["duplicates"] = f"only identical inputs were compared, as {why}"
    try:
        blank: Mask | None = asked.blank
    except DataError:  # what is only shown need not be there
        blank = None
    near = near_duplicates(prints, asked.given, neighbours, blank)
    columns = _issue("near_duplicate", near.issues)
    columns["near_duplicate_set"] = near.group
    if neighbours is not None:
        columns["distance_to_nearest_neighbor"] = neighbours.distance[:, 0]
    score = np.where(near.differ, near.issues.score, np.float32(1))
    columns |= _issue("conflicting_duplicate", Issues(near.differ, score))
    if asked.test is not None:
        test, features = asked.test
        from_test = None
        if neighbours is not None and features is not None:
            from_test = asked.index.nearest_to(rows_of(features))
        issues, partner = between(prints, fingerprints(test), neighbours, from_test, blank)
        columns |= _issue("test_duplicate", issues)
        names = [str(test.ids[k]) if k >= 0 else "" for k in partner]
        columns["test_duplicate_id"] = np.array(names, dtype=object)
    return columns


def _outliers(asked: _Asked) -> Columns:
    return _issue("outlier", outliers(asked.neighbours))


def _imbalance(asked: _Asked) -> Columns:
    return _issue("class_imbalance", class_imbalance(asked.given))


def _groups(asked: _Asked) -> Columns:
    if asked.evidence is None:
        raise _CannotError("there is no evidence from a model")
    weak = weak_groups(asked.index.rows, asked.evidence.log_odds < 0)
    return {**_issue("underperforming_group", weak.issues), "underperforming_group": weak.group}


def _images(asked: _Asked) -> Columns:
    if asked.shown.kind != "image":
        raise _CannotError(f"{asked.shown.name} holds no images")
    own_size = isinstance(asked.shown.inputs, LazyImages)
    scaled = asked.shown.scaled and not own_size
    if not own_size:
        why = "they were scaled to one when read" if scaled else "they have one size"
        asked.skipped["odd sizes of images"] = why
    if scaled:
        asked.skipped["blurry images"] = "they were scaled when read, which blurs or sharpens"
    issues = image_issues(asked.measures, own_size=own_size)
    columns = [_issue(name, x) for name, x in issues if not (scaled and name == "blurry")]
    return {name: x for part in columns for name, x in part.items()}


def _empty(asked: _Asked) -> Columns:
    is_image = asked.shown.kind == "image"
    return _issue("null", empty(asked.shown, asked.measures if is_image else None))


def _giveaways(asked: _Asked) -> Columns:
    if asked.shown.kind != "table":
        raise _CannotError(f"{asked.shown.name} is no table")
    asked.giveaways = giveaways(asked.shown.inputs, asked.given, asked.shown.columns, asked.flagged)
    return {}


_CHECKS: dict[str, Callable[[_Asked], Columns]] = dict(
    zip(
        ALL,
        (_duplicates, _outliers, _imbalance, _groups, _images, _empty, _giveaways),
        strict=True,
    )
)
