"""The numbers that the paper publishes, read from `published.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Published:
    """A cell of a table of the paper: test accuracy in %, its spread, and the epoch of a stop."""

    mean: float
    spread: float
    epoch: float | None = None


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper: its columns, and its rows by data set and rate, in its order."""

    columns: tuple[str, ...]
    rows: dict[tuple[str, float], tuple[Published, ...]]

    def cell(self, data: str, rate: float, column: str) -> Published | None:
        """The published number for a row and a method; None where there is none."""
        row = self.rows.get((data, rate))
        return None if row is None or column not in self.columns else row[self._at(column)]

    def _at(self, column: str) -> int:
        return self.columns.index(column)


@cache
def published(table: str) -> PublishedTable:
    """A table of the paper: symmetric, early_stopping or pairflip.

    >>> published("symmetric").cell("mnist", 0.8, "schedule")
    Published(mean=95.0, spread=0.1, epoch=None)
    >>> len(published("symmetric").rows), len(published("early_stopping").rows)
    (12, 7)
    """
    text = resources.files("reproduction").joinpath("published.toml").read_text(encoding="utf-8")
    content = dict(tomllib.loads(text)[table])
    columns = tuple(content.pop("columns"))
    rows = {
        (data, float(rate)): tuple(Published(*cell) for cell in cells)
        for data, rates in content.items()
        for rate, cells in rates.items()
    }
    return PublishedTable(columns, rows)


@dataclass(frozen=True)
class Logged:
    """A cell as the authors' log has it: the last five epochs of one run, in %."""

    mean: float
    spread: float
    all_classes: float | None = None
    """Figure of the other network of a pair, which is evaluated on all classes."""

    def differs(self, theirs: Published) -> bool:
        """Whether what is printed does not follow from the log, up to a tenth.

        >>> Logged(34.57, 0.84).differs(Published(24.6, 0.8))
        True
        """
        return abs(self.mean - theirs.mean) > 0.15


@cache
def logged(kind: str, data: str, rate: float, method: str) -> Logged | None:
    """Find the authors' log for a cell of the tables without stops, if it is public.

    >>> logged("pairflip", "cifar10", 0.45, "gamblers")
    Logged(mean=34.57, spread=0.85, all_classes=None)
    """
    text = resources.files("reproduction").joinpath("published.toml").read_text(encoding="utf-8")
    rates = tomllib.loads(text)["log"].get(kind, {}).get(data, {}).get(method, {})
    found = rates.get(f"{rate:g}")
    return None if found is None else Logged(*found)
