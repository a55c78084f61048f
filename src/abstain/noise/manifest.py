"""The record of planted noise: every flip, and how to plant it again."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError
from abstain.noise.checks import (
    FloatArray,
    IntArray,
    check_ids,
    check_labels,
    check_num_classes,
    check_rate,
    check_seed,
    describe,
)
from abstain.noise.corruption import corrupt, instance_dependent
from abstain.noise.matrices import TRANSITIONS, check_transition, transition
from abstain.support.files import publish

_FORMAT = "abstain-noise-1"
_INSTANCE = "instance"
KINDS = (*TRANSITIONS, _INSTANCE)
"""Every kind that `plant` knows; all but ``instance`` have a matrix."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseManifest:
    """The record of planted noise: every flip, and how to plant it again elsewhere.

    Attributes:
        ids: One unique id for each sample, strings or integers.
        given: Labels after planting; what training may see.
        true: Labels before planting; for evaluation only.
        num_classes: Number of classes m.
        kind: One of `KINDS`.
        rate: The requested rate; `realised_rate` is the share of labels that became wrong.
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
        # These checks also protect the program from files of unknown origin.
        check_num_classes(self.num_classes)
        check_rate(self.rate)
        check_seed(self.seed)
        if self.kind not in KINDS:
            raise AbstainError(
                f"must be one of {', '.join(KINDS)}, got {self.kind!r}", argument="kind"
            )
        size = len(check_ids(self.ids))
        for name in ("given", "true"):
            labels = check_labels(getattr(self, name), self.num_classes, name)
            if len(labels) != size:
                raise AbstainError(
                    f"must have one label per id, {size}, got {len(labels)}", argument=name
                )
        if (self.matrix is None) != (self.kind == _INSTANCE):
            raise AbstainError(
                f"must be given unless kind is {_INSTANCE}, got {self.kind}", argument="matrix"
            )
        if self.matrix is not None and len(check_transition(self.matrix)) != self.num_classes:
            raise AbstainError(
                f"must have {self.num_classes} rows, one per class, got {len(self.matrix)}",
                argument="matrix",
            )

    @property
    def flipped(self) -> npt.NDArray[np.bool_]:
        """Which labels are wrong."""
        return np.not_equal(self.given, self.true)

    @property
    def realised_rate(self) -> float:
        """Share of labels that became wrong."""
        return float(self.flipped.mean())

    def replay(self, labels: npt.ArrayLike, ids: npt.ArrayLike) -> IntArray:
        """The given labels of the same samples, in the order of ``ids``.

        Args:
            labels: True labels; must be those that were corrupted.
            ids: Their ids: the manifest's, each once, in any order.
        """
        other_ids = check_ids(ids)
        true = check_labels(labels, self.num_classes)
        if len(true) != len(other_ids):
            raise AbstainError(
                f"must have one label per id, {len(other_ids)}, got {len(true)}", argument="labels"
            )
        if describe(other_ids) != describe(self.ids):
            raise AbstainError(
                f"must be the manifest's {describe(self.ids)}, got {describe(other_ids)}",
                argument="ids",
            )
        ours, theirs = np.argsort(self.ids), np.argsort(other_ids)
        foreign = self.ids[ours] != other_ids[theirs]
        if foreign.any():
            unknown = np.setdiff1d(other_ids, self.ids)[0]
            raise AbstainError(
                f"must be the manifest's, got {unknown!s}, which it lacks", argument="ids"
            )
        changed = self.true[ours] != true[theirs]
        if changed.any():
            first = int(changed.argmax())
            raise AbstainError(
                "must be those that were corrupted: "
                f"id {self.ids[ours[first]]!s} had {self.true[ours[first]]}, "
                f"got {true[theirs[first]]} (and {int(changed.sum()) - 1} more)",
                argument="labels",
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
        if not target.absolute().parent.is_dir():
            raise AbstainError(f"must lie in a folder that exists, got {target}", argument="path")
        try:
            publish(target, lambda path: _save(path, arrays))
        except OSError as error:
            raise AbstainError(
                f"must be writable, got {target}: {error}", argument="path"
            ) from error

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
                f"must name a noise manifest, got {os.fspath(path)}: {error}", argument="path"
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
    rng = np.random.default_rng(check_seed(seed))
    true = check_labels(labels, check_num_classes(num_classes)).copy()
    if kind == _INSTANCE:
        if features is None:
            raise AbstainError(f"must be given for kind {_INSTANCE}, got None", argument="features")
        matrix = None
        given = instance_dependent(features, true, num_classes, rate, rng, exact=exact).given
    elif kind in TRANSITIONS:
        matrix = transition(kind, num_classes, rate)
        given = corrupt(true, matrix, rng, exact=exact)
    else:
        raise AbstainError(f"must be one of {', '.join(KINDS)}, got {kind!r}", argument="kind")
    return NoiseManifest(
        ids=check_ids(ids).copy(),
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


def _save(path: Path, arrays: Mapping[str, Any]) -> None:
    with path.open("wb") as file:  # by its name alone, NumPy would add an ending
        np.savez_compressed(file, **arrays)
