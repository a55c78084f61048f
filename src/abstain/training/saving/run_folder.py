"""The folder of a run: enough to go on with it, to run it again, and to use its model.

run.json           plan with its seeds, source, classes, versions, machine; written last of what
                   a run begins with, so that a folder that has it has everything; whether
                   fine-tuning is to be tried (trial), or what came of it (finetuning)
noise.npz          what was flipped on purpose, if anything
encoder.json …     how inputs become tensors
last.safetensors   the newest checkpoint (best.safetensors: of the validation stop)
epochs.parquet     the history; steps.parquet; tensorboard/
ledger.parquet     what the training saw of each sample
model.safetensors  the model; summary.json: how it ended
finetuned/         the same of a training that is tried, until it is decided (trial.py)
"""

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from abstain.data import Encoder, LabeledData
from abstain.data.encoders.base import FILE as ENCODER
from abstain.data.identity import inputs_digest, labels_digest
from abstain.embed.encoder import load_any_encoder
from abstain.embed.finetuning import FineTuningEncoder
from abstain.errors import AbstainError
from abstain.models import build_model
from abstain.noise import NoiseManifest
from abstain.scores.ledger import Ledger
from abstain.support.files import in_the_way, publish_text
from abstain.training.plan import Plan
from abstain.training.saving.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from abstain.training.saving.history import History

_FORMAT = 2
_ABOUT, _MODEL, _NOISE = "run.json", "model.safetensors", "noise.npz"
_BEFORE = (ENCODER, _NOISE)  # what a run writes before it has begun
_PACKAGES = ("abstain", "torch", "numpy", "accelerate", "safetensors", "tokenizers")


class RunFolder:
    """A folder that belongs to one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def check_new(self) -> None:
        """Raise unless the folder is still to be made or empty: no run is written over.

        Nor is one begun that could not be written: before it stand hours of making features.
        """
        try:
            taken = self.path.exists() and any(self.path.iterdir())
            wall = in_the_way(self.path)
        except OSError as error:
            raise AbstainError(
                f"must be one that can be made, got {self.path}: {error}", argument="folder"
            ) from error
        if taken:
            raise AbstainError(
                f"must be new or empty, got {self.path}",
                argument="folder",
                remedy="go on with it by {resume}" if (self.path / _ABOUT).exists() else "",
                resume=True,
            )
        if wall is not None:
            raise AbstainError(
                f"must be one that can be written, got {self.path}: {wall} is not writable",
                argument="folder",
            )

    def metadata(self) -> dict[str, Any]:
        """The values that `begin` wrote."""
        path = self.path / _ABOUT
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            found = [*self.path.iterdir()] if self.path.is_dir() else []
            if not self.path.is_dir():
                why = "which is no folder"
            elif self._has_verdict():
                why = "an audit of probabilities that were given, without a training"
            elif any(path.name[0] != "." and path.name not in _BEFORE for path in found):
                why = f"which has no {_ABOUT}"
            else:
                why = (
                    f"which has no {_ABOUT}: if a run was killed there before it began, remove the "
                    "folder and start it again"
                )
            raise AbstainError(
                f"must be the folder of a run, got {self.path}, {why}", argument="folder"
            ) from None
        except (OSError, ValueError) as error:
            raise AbstainError(
                f"must be the folder of a run, got {self.path}: {error}", argument="folder"
            ) from error
        if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
            raise AbstainError(
                f"{path} must be of format {_FORMAT}; it is of another version of abstain"
            )
        return saved

    def begin(
        self,
        *,
        plan: Plan,
        sources: Mapping[str, Any],
        data: LabeledData,
        encoder: Encoder,
        manifest: NoiseManifest | None,
        processes: int,
        device: str,
        trial: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the folder and write down everything that decides the run; all of it or nothing.

        A trial is what is to be tried after this training.
        """
        saved = {
            "format": _FORMAT,
            "plan": plan.as_json(),
            "sources": dict(sources),
            "data": {
                "name": data.name,
                "kind": data.kind,
                "samples": len(data),
                "fingerprint": labels_digest(data),
                "inputs": inputs_digest(data),
            },
            "classes": list(data.classes),
            "skipped": list(data.skipped),
            "flipped": None if manifest is None else int(manifest.flipped.sum()),
            "processes": processes,
            "machine": {"device": device, "platform": platform.platform(), "cores": os.cpu_count()},
            "versions": {"python": platform.python_version(), **_versions()},
            "command": sys.argv,
        }
        if trial is not None:
            saved["trial"] = dict(trial)
        self.check_new()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            encoder.save(self.path)
            if manifest is not None:
                manifest.save(self.path / _NOISE)
            _write_json(self.path / _ABOUT, saved)
        except BaseException as error:
            shutil.rmtree(self.path, ignore_errors=True)  # it was new or empty
            if isinstance(error, OSError):
                raise AbstainError(
                    f"must be one that can be written, got {self.path}: {error}", argument="folder"
                ) from error
            raise

    def decide(self, finetuning: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
        """Record what came of a trial, which is then over."""
        saved = {name: x for name, x in self.metadata().items() if name != "trial"}
        with self.writing():
            _write_json(self.path / "summary.json", summary)
            _write_json(self.path / _ABOUT, {**saved, "finetuning": dict(finetuning)})

    def finish(
        self,
        model: torch.nn.Module,
        ledger: Ledger,
        history: History,
        data: LabeledData,
        summary: Mapping[str, Any],
    ) -> None:
        """Write what the run gave; the last checkpoint stays, so that this can be done again."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        save_checkpoint(self.path / _MODEL, Checkpoint(tensors=dict(model.state_dict()), state={}))
        table = ledger.table(data.ids, data.given.numpy())
        if data.true is not None:
            table["true"] = data.true.numpy()
        with self.writing():
            history.write(self.path)
            pq.write_table(pa.table(table), self.path / "ledger.parquet")
            if not self._has_verdict():
                _write_json(self.path / "summary.json", summary)

    def _has_verdict(self) -> bool:
        """Whether an audit of this very training has reported how it ended, and what it found."""
        try:
            found = json.loads((self.path / "summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(found, dict) and found.get("kind") == "audit"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Report in one line what the system refuses to write."""
        try:
            yield
        except OSError as error:
            raise AbstainError(
                f"{self.path} cannot be written ({error.strerror or error}): make room, then go "
                "on by resume; the last checkpoint there is whole"
            ) from error

    def load_model(
        self, backbone: str | None = None
    ) -> tuple[torch.nn.Module, Encoder, tuple[str, ...]]:
        """The model of a finished run, ready to predict, with its encoder and classes.

        Args:
            backbone: The name of its backbone here, where that lies elsewhere than in training.
        """
        saved = self.metadata()
        if saved["plan"]["model"] is None:
            raise AbstainError(
                f"{self.path} was trained with a module of another program, which it cannot build: "
                f"build it there, and load {_MODEL} into it"
            )
        if not (self.path / _MODEL).exists():
            raise AbstainError(
                f"{self.path} holds no model yet: its training has not ended; resume it"
            )
        encoder = load_any_encoder(self.path, backbone)
        classes = tuple(saved["classes"])
        model = make_model(saved["plan"]["model"], encoder, len(classes), seed=0)
        weights: dict[str, Tensor] = load_checkpoint(self.path / _MODEL).tensors
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise AbstainError(f"{self.path / _MODEL} does not fit its plan: {error}") from error
        return model.eval(), encoder, classes


def make_model(name: str, encoder: Encoder, num_classes: int, seed: int) -> torch.nn.Module:
    """A fresh model of m+1 outputs for what an encoder gives."""
    if isinstance(encoder, FineTuningEncoder):
        return encoder.model(num_classes + 1, seed)
    return build_model(
        name,
        input_shape=encoder.input_shape,
        num_outputs=num_classes + 1,
        vocabulary=getattr(encoder, "vocabulary", None),
        seed=seed,
    )


def began_with(saved: Mapping[str, Any], data: LabeledData) -> bool:
    """Whether data are those that a run began with."""
    before = saved["data"]
    same_inputs = before["inputs"] == inputs_digest(data)
    return bool(same_inputs and before["fingerprint"] == labels_digest(data))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    publish_text(path, json.dumps(value, indent=2, default=str) + "\n")


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {**found, "torch": torch.__version__}  # its package may be silent about CUDA
