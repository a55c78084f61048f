"""Sources of labelled data behind one contract: `load(source)` gives a `LabeledData`.

A source is a built-in name, an image folder, a CSV, Parquet or JSONL file, an `.npz`,
`hf:OWNER/NAME`, or an object: arrays, a DataFrame, a torch or Hugging Face dataset. Encoders
turn what was loaded into what a model sees. The names below are imported when first used, so that
importing this package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abstain.data.contract import Inputs, Kind, LabeledData
    from abstain.data.encoders import Encoder, fit_encoder, load_encoder
    from abstain.data.loading import load, splits
    from abstain.data.readers.builtin import BUILTIN, Builtin

__all__ = [
    "BUILTIN",
    "Builtin",
    "Encoder",
    "Inputs",
    "Kind",
    "LabeledData",
    "fit_encoder",
    "load",
    "load_encoder",
    "splits",
]

_HOMES = {
    "BUILTIN": "readers.builtin",
    "Builtin": "readers.builtin",
    "Encoder": "encoders",
    "Inputs": "contract",
    "Kind": "contract",
    "LabeledData": "contract",
    "fit_encoder": "encoders",
    "load": "loading",
    "load_encoder": "encoders",
    "splits": "loading",
}


def __getattr__(name: str) -> object:
    """Import a public name from its module when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
