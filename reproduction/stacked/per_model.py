"""Tables with a row per model, from which some models can be taken."""

from dataclasses import fields, replace
from typing import Any, Self

from torch import Tensor


class PerModel:
    """A dataclass of tensors, or lists of them, whose first dimension is the model."""

    def take(self, rows: Tensor) -> Self:
        """These models alone."""
        changes: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, list):
                changes[field.name] = [tensor[rows] for tensor in value]
            elif value is not None:
                changes[field.name] = value[rows] if isinstance(value, Tensor) else value.take(rows)
        return replace(self, **changes)  # type: ignore[type-var]
