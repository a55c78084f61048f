"""A second training within the folder of a run: there while it is tried, and one folder after."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abstain.training.saving.run_folder import RunFolder

_NAME = "finetuned"


class TrialFolder(RunFolder):
    """The folder of a training that is tried; a process may be killed at any point.

    Where the run is resumed, `settle` comes first. Then the trial is to be made or to be gone on
    with if run.json of the run still has it, and decided if not.
    """

    def __init__(self, run: RunFolder) -> None:
        super().__init__(run.path / _NAME)
        self._run = run

    @property
    def has_begun(self) -> bool:
        """Whether there is something to go on with."""
        return (self.path / "run.json").exists()

    def clear(self) -> None:
        """Remove what is there."""
        shutil.rmtree(self.path, ignore_errors=True)

    def lose(self, decided: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
        """The run stays as it is; what was decided is recorded there."""
        self._run.decide(decided, summary)
        self.clear()

    def win(self, decided: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
        """The run becomes what was tried."""
        self.decide(decided, summary)
        self.settle()

    def settle(self) -> None:
        """Bring to its end what a killed process left half done."""
        if self.has_begun and "finetuning" in self.about():
            self._move_up()
        elif "trial" not in self._run.about():
            self.clear()

    def _move_up(self) -> None:
        """Move all files into the folder of the run; without a model until they are there.

        run.json goes last but for the model, which the last checkpoint can make again.
        """
        with self.writing():
            (self._run.path / "model.safetensors").unlink(missing_ok=True)
            last = ("run.json", "model.safetensors")
            others = [path.name for path in self.path.iterdir() if path.name not in last]
            for name in (*others, *last):
                if (self.path / name).exists():
                    _replace(self.path / name, self._run.path / name)
        self.clear()


def _replace(path: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    path.replace(target)
