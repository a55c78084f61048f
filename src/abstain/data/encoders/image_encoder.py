"""Images stay uint8 on the host, a quarter of the memory, and become [0, 1] on the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from abstain.data.contract import Inputs, Kind, LabeledData
from abstain.data.encoders.base import Encoder, LazyEncoded
from abstain.errors import DataError


@dataclass(frozen=True)
class ImageEncoder(Encoder):
    """Knows the shape that images must have."""

    shape: tuple[int, ...]
    columns: tuple[str, ...] = ()
    kind: Kind = "image"

    @classmethod
    def fit(cls, data: LabeledData) -> Self:
        """Take the shape of the first image; the source has checked that all are alike."""
        return cls(tuple(torch.as_tensor(data.inputs[0]).shape), data.columns)

    @classmethod
    def restore(cls, saved: dict[str, Any]) -> Self:
        """Rebuild from what `save` wrote."""
        return cls(tuple(saved["shape"]), tuple(saved["columns"]))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Channels, height, width."""
        return self.shape

    def encode_one(self, sample: object, order: Sequence[int]) -> Tensor:
        """One image, checked."""
        image = torch.as_tensor(sample)
        return self._in_colour(image[None])[0]

    def to_model(self, batch: Tensor) -> Tensor:
        """Bytes to float32 in [0, 1]; images that are float already are used as they are."""
        return batch.to(torch.float32) / 255 if batch.dtype == torch.uint8 else batch

    def as_json(self) -> dict[str, Any]:
        """Shape and columns."""
        return {"kind": self.kind, "shape": self.shape, "columns": self.columns}

    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> Inputs:
        if len(inputs) == 0:
            return torch.empty((0, *self.shape), dtype=torch.uint8)
        if isinstance(inputs, Tensor):
            return self._in_colour(inputs)
        self.encode_one(inputs[0], ())  # raise now for what does not fit, not within a batch
        return LazyEncoded(inputs, self)

    def _in_colour(self, images: Tensor) -> Tensor:
        """Grey images are colour images without colour, where a model was trained on these."""
        wanted, shape = self.shape[0], tuple(images.shape[1:])
        if shape[:-2] == (1,) and wanted == 3 and shape[-2:] == self.shape[-2:]:
            return images.expand(-1, wanted, -1, -1)
        self._check(shape)
        return images

    def _check(self, shape: tuple[int, ...]) -> None:
        if shape != self.shape:
            height, width = self.shape[-2:]
            raise DataError(
                f"images must have the shape that the model was trained on, {_sizes(self.shape)}, "
                f"got {_sizes(shape)}",
                remedy="load them with {image_size}, and in grey where those were grey",
                image_size=(height, width),
            )


def _sizes(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) + " (channels × height × width)"
