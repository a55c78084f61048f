"""A source: what the user named, and how to read it; saved with a run, and loaded again.

Goes in: names, paths or data in memory, and options of `load`. Comes out: `LabeledData`, with a
test set where there is one. Begin with `Source.load`; `loading.py` reads one split.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from abstain.data.contract import LabeledData
from abstain.data.features import are_numbers, is_feature_file, name_of
from abstain.data.forms import divided, fitting, with_absolute_paths
from abstain.data.loading import load, splits
from abstain.data.readers.builtin import BUILTIN
from abstain.errors import AbstainError, DataError


@dataclass(frozen=True)
class Source:
    """A source that the user named, a test set beside it, and the options to read both.

    >>> Source("digits", options={"label": "stars"}).saved()
    {'train': 'digits', 'test': None, 'options': {'label': 'stars'}}
    >>> Source.found_again({"train": "digits", "test": None, "options": {"split": "test"}}).options
    {'split': 'test'}
    """

    train: Any
    """A name, a path, or data in memory; None for data in memory that a folder could not save."""
    test: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of `abstain.data.load`."""

    def load(self, **options: Any) -> tuple[LabeledData, LabeledData | None]:  # noqa: ANN401
        """The training data and, where there are any, those with right labels to look at.

        Args:
            **options: More of `abstain.data.load`.
        """
        options = {**self.options, **options}
        if self.train is None:
            raise AbstainError(
                "must be given (data in memory also to resume), got none", argument="source"
            )
        test, features = self.test, options.get("features")
        if are_numbers(features):  # of the source, not of a test
            if test is not None:
                raise AbstainError(
                    f"must be left out where features are {name_of(features)}, got {test}",
                    argument="test",
                )
            return load(self.train, **options), None
        if (
            test is None
            and not isinstance(self.train, LabeledData)
            and "test" in splits(self.train)
        ):
            test = self.train
        of_train, of_test = (options, {}) if test is None else divided(options, self.train, test)
        data = load(self.train, **of_train)
        if isinstance(test, LabeledData | None):
            return data, test
        return data, _test_data(test, of_test, data)

    def load_train(self, **options: Any) -> LabeledData:  # noqa: ANN401
        """The training data alone.

        Args:
            **options: More of `abstain.data.load`.
        """
        train = self.train
        # `load` would suggest a file of a like name, which is other data than was used before.
        if isinstance(train, str) and os.path.isabs(train) and not os.path.exists(train):  # noqa: PTH110, PTH117
            raise DataError(
                f"must still be where it was, got no {train}; put it back", argument="source"
            )
        return load(train, **{**self.options, **options})

    def with_options(self, **options: Any) -> "Source":  # noqa: ANN401
        """Add options."""
        return replace(self, options={**self.options, **options})

    def saved(self) -> dict[str, Any]:
        """Plain values, with which a folder finds the source again; data in memory are None."""
        features = self.options.get("features")
        if are_numbers(features) and not is_feature_file(features):
            return {"train": None, "test": _name(self.test), "options": {}}
        options = with_absolute_paths(self.options)
        return {"train": _name(self.train), "test": _name(self.test), "options": options}

    @classmethod
    def found_again(cls, saved: Mapping[str, Any]) -> "Source":
        """A saved source as it can be found here.

        A folder of sets that this machine does not have is left out: sets are then sought where
        they are without one, and whether they are the same is for the caller to check. So are
        options that have no effect on such a source.
        """
        train, test = saved["train"], saved.get("test")
        named = [source for source in (train, test) if source is not None]
        used = [fitting(source, saved["options"]) for source in named] or [saved["options"]]
        # JSON has only lists.
        options: dict[str, Any] = {}
        for its in used:
            options |= {name: tuple(x) if isinstance(x, list) else x for name, x in its.items()}
        if not os.path.isdir(options.get("data_dir") or "."):  # noqa: PTH112
            del options["data_dir"]
        return cls(train, test, options)


def image_size(data: LabeledData) -> tuple[int, int]:
    """Height and width of the images."""
    height, width = torch.as_tensor(data.inputs[0]).shape[-2:]
    return height, width


def _test_data(test: object, options: Mapping[str, Any], data: LabeledData) -> LabeledData:
    """A test set, read as the training data were."""
    as_trained: dict[str, Any] = {
        "classes": data.classes,
        "categories": data.categories,
        "texts": tuple(data.texts),
    }
    if data.kind == "image" and not options.get("own_size"):  # as predict does
        as_trained |= fitting(test, {"image_size": image_size(data)})
    try:
        split = "test" if "test" in splits(test) else "train"
        return load(test, **{**options, **as_trained, "weights": None, "split": split})
    except AbstainError as error:
        if error.argument != "source":
            raise
        raise error.for_argument("test") from error


def _name(source: object) -> str | None:
    if not isinstance(source, str | os.PathLike):
        return None
    text = os.fspath(source)
    if isinstance(source, str) and text in BUILTIN:  # also beside a folder of that name
        return text
    # A relative path must still be found when the run is taken up from elsewhere.
    return os.path.abspath(text) if os.path.exists(text) else text  # noqa: PTH100, PTH110
