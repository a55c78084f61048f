"""Options of reading that every reader gets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from abstain.errors import DataError

MEMORY_BUDGET = 4 << 30
"""Bytes of decoded inputs that `load` keeps in memory; what would be larger is decoded lazily.

4 GiB holds 1.4 million CIFAR images and leaves an ordinary machine room to train.
"""
_LARGEST = 4096  # pixels a side: an image of more would take gigabytes


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The options of `load`, apart from the source."""

    split: str = "train"
    label: str | None = None
    features: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    """Columns that are no features."""
    categories: Mapping[str, Sequence[str]] | None = None
    """Those of the training data, by column, to number others in the same way."""
    texts: tuple[str, ...] | None = None
    """The training's columns of free text; None finds them by looking."""
    weights: str | None = None
    """The column of weights, which is no feature."""
    data_dir: Path | None = None
    cache: Path = Path("cache")
    skip_bad: bool = False
    labelled: bool = True
    image_size: int | tuple[int, int] | None = None
    to_show: bool = False
    """Whether the inputs are only shown, as the model sees other features: they need not fit it."""
    own_size: bool = False
    """Whether images keep their sizes and are decoded when asked for: a backbone scales them."""
    memory_budget: int = MEMORY_BUDGET

    def __post_init__(self) -> None:
        size = self.image_size
        sides = size if isinstance(size, tuple) else (size,)
        fits = all(isinstance(side, int) and 1 <= side <= _LARGEST for side in sides)
        if size is not None and not fits:
            raise DataError(
                f"must be whole pixels, 1 to {_LARGEST}, got {size!r}", argument="image_size"
            )

    def key(self) -> list[object]:
        """The options that change what is decoded, for the key of a cache entry."""
        size = list(self.image_size) if isinstance(self.image_size, tuple) else self.image_size
        named = [self.split, self.label, self.features, self.skip_bad, self.labelled]
        return [*named, size, self.ignore]
