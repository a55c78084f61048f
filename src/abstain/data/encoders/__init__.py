"""Encoders: what a model sees of samples.

Goes in: `LabeledData`. Comes out: an `Encoder`, saved with the model, and the tensors it makes.
Begin with `fit_encoder`; base.py says what each encoder must do.
"""

import json
import os
from pathlib import Path

from abstain.data.contract import LabeledData
from abstain.data.encoders.base import FILE, Encoder
from abstain.data.encoders.image_encoder import ImageEncoder
from abstain.data.encoders.table_encoder import TableEncoder
from abstain.data.encoders.text_encoder import TextEncoder
from abstain.errors import DataError

__all__ = ["Encoder", "ImageEncoder", "TableEncoder", "TextEncoder", "fit_encoder", "load_encoder"]


def fit_encoder(
    data: LabeledData,
    *,
    length: int = 200,
    vocabulary: int = 50_000,
) -> Encoder:
    """Learn from the training part what turns its kind of inputs into what a model sees.

    Args:
        data: the training part, and nothing else: means and words must not come from test data.
        length: tokens per text; longer texts are cut, shorter ones padded with 0.
        vocabulary: at most so many words, the most frequent first.

    >>> import torch
    >>> data = LabeledData(inputs=torch.tensor([[0.0, 5.0], [2.0, 5.0]]), kind="table",
    ...                    given=torch.tensor([0, 1]), classes=("a", "b"), ids=("0", "1"),
    ...                    columns=("x", "y"))
    >>> encoder = fit_encoder(data)
    >>> encoder.input_shape, encoder.encode(data).tolist()
    ((2,), [[-1.0, 0.0], [1.0, 0.0]])
    """
    if len(data) == 0:
        raise DataError(f"{data.name} must hold samples to fit an encoder to, got none")
    if data.kind == "image":
        return ImageEncoder.fit(data)
    if data.kind == "table":
        return TableEncoder.fit(data)
    return TextEncoder.fit(data, length=length, vocabulary=vocabulary)


def load_encoder(folder: str | os.PathLike[str]) -> Encoder:
    """Read the encoder that `Encoder.save` wrote into a folder.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ImageEncoder((1, 28, 28)).save(folder)
    ...     load_encoder(folder).input_shape
    (1, 28, 28)
    """
    path = Path(folder) / FILE
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder} must hold a saved encoder ({FILE}), got: {error}; save the model again"
        ) from error
    kind = saved.get("kind") if isinstance(saved, dict) else saved
    try:
        if kind == "image":
            return ImageEncoder.restore(saved)
        if kind == "table":
            return TableEncoder.restore(saved)
        if kind == "text":
            return TextEncoder.restore(saved, Path(folder))
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} must be as it was saved, got: {error!r}") from error
    raise DataError(f"{path} must say image, table or text, got {kind!r}")
