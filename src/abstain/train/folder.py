"""The folder of a run: enough to go on with it, to run it again, and to use its model.

run.json           recipe, source, seeds, classes, layout, versions, machine
noise.npz          what was flipped on purpose, if anything
encoder.json …     how inputs become tensors
last.safetensors   the newest checkpoint (best.safetensors: of the validation stop)
epochs.parquet     the history; steps.parquet; tensorboard/
ledger.parquet     what the training saw of each sample
model.safetensors  the model; summary.json: how it ended
"""

import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from abstain.data import Encoder, LabeledData, load_encoder
from abstain.errors import AbstainError
from abstain.models import build_model
from abstain.noise import NoiseManifest
from abstain.scores.ledger import Ledger
from abstain.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from abstain.train.recipe import Recipe

_FORMAT = 1
_ABOUT, _MODEL, _NOISE = "run.json", "model.safetensors", "noise.npz"
_PACKAGES = ("abstain", "torch", "numpy", "accelerate", "safetensors", "tokenizers")


class RunFolder:
    """A folder that belongs to one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def create(self) -> None:
        """Make the folder; it must be new or empty, so that no run is written over."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            taken = any(self.path.iterdir())
        except OSError as error:
            raise AbstainError(
                f"folder must be one that can be made, got {self.path}: {error}"
            ) from error
        if taken:
            how = "; go on with it by resume" if (self.path / _ABOUT).exists() else ""
            raise AbstainError(f"folder must be new or empty, got {self.path}{how}")

    def about(self) -> dict[str, Any]:
        """What `describe` wrote."""
        path = self.path / _ABOUT
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise AbstainError(f"folder must be that of a run, got {self.path}: {error}") from error
        if not isinstance(about, dict) or about.get("format") != _FORMAT:
            raise AbstainError(
                f"{path} must be of format {_FORMAT}; it is of another version of abstain"
            )
        return about

    def describe(
        self,
        *,
        recipe: Recipe,
        sources: Mapping[str, Any],
        layout: Mapping[str, Any],
        data: LabeledData,
        encoder: Encoder,
        manifest: NoiseManifest | None,
        processes: int,
        device: str,
    ) -> None:
        """Write down everything that decides the run, before it begins."""
        encoder.save(self.path)
        if manifest is not None:
            manifest.save(self.path / _NOISE)
        about = {
            "format": _FORMAT,
            "recipe": recipe.as_json(),
            "sources": dict(sources),
            "layout": dict(layout),
            "data": {"name": data.name, "kind": data.kind, "samples": len(data)},
            "classes": list(data.classes),
            "skipped": list(data.skipped),
            "flipped": None if manifest is None else int(manifest.flipped.sum()),
            "processes": processes,
            "machine": {"device": device, "platform": platform.platform(), "cores": os.cpu_count()},
            "versions": {"python": platform.python_version(), **_versions()},
            "command": sys.argv,
        }
        text = json.dumps(about, indent=2, default=str)
        (self.path / _ABOUT).write_text(text + "\n", encoding="utf-8")

    def finish(
        self, model: torch.nn.Module, ledger: Ledger, data: LabeledData, summary: Mapping[str, Any]
    ) -> None:
        """Write what the run gave."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        save_checkpoint(self.path / _MODEL, Checkpoint(tensors=dict(model.state_dict()), state={}))
        table = ledger.table(data.ids, data.given.numpy())
        if data.true is not None:
            table["true"] = data.true.numpy()
        pq.write_table(pa.table(table), self.path / "ledger.parquet")
        text = json.dumps(summary, indent=2)
        (self.path / "summary.json").write_text(text + "\n", encoding="utf-8")

    def load_model(self) -> tuple[torch.nn.Module, Encoder, tuple[str, ...]]:
        """The model of a finished run, ready to predict, with its encoder and classes."""
        about = self.about()
        if not (self.path / _MODEL).exists():
            raise AbstainError(
                f"{self.path} holds no model yet: its training has not ended; resume it"
            )
        encoder = load_encoder(self.path)
        classes = tuple(about["classes"])
        model = make_model(about["recipe"]["model"], encoder, len(classes), seed=0)
        weights: dict[str, Tensor] = load_checkpoint(self.path / _MODEL).tensors
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise AbstainError(f"{self.path / _MODEL} does not fit its recipe: {error}") from error
        return model.eval(), encoder, classes


def make_model(name: str, encoder: Encoder, num_classes: int, seed: int) -> torch.nn.Module:
    """A fresh model of m+1 outputs for what an encoder gives."""
    vectors = getattr(encoder, "vectors", None)
    vocabulary = getattr(encoder, "vocabulary", None) if vectors is None else None
    return build_model(
        name,
        input_shape=encoder.input_shape,
        num_outputs=num_classes + 1,
        vectors=vectors,
        vocabulary=vocabulary,
        seed=seed,
    )


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
