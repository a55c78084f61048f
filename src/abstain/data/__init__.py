"""Labelled data of any source, under one contract.

Goes in: a name, a path or data in memory, and options of reading. Comes out: `LabeledData`
(contract.py), and by encoders/ what a model sees of it. Begin with `load` in loading.py; source.py
remembers what a run was given, identity.py has all fingerprints. The names below are imported when
first used, so that importing this package costs nothing.
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
