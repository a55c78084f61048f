"""A folder with a file per run, named by what was asked for; folders merge by copying."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from abstain.errors import AbstainError
from abstain.support.files import publish_text
from reproduction.record import Record

_log = logging.getLogger(__name__)

# The name of a run; other JSON may lie beside them.
_RUNS = "[0-9a-f]" * 16 + ".json"


class RecordStore:
    """Records of runs, each written whole or not at all."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise AbstainError(f"must be a folder, got the file {self.folder}", argument="store")

    def put(self, record: Record) -> Path:
        """Write a record; another process that writes the same one at once does no harm."""
        path = self.folder / f"{record.name}.json"
        text = json.dumps(record.as_json(), allow_nan=False, ensure_ascii=False)
        with self._writing():
            publish_text(path, text)
        return path

    def check(self) -> None:
        """Refuse a folder that cannot be written, before hours are spent on what it is to keep."""
        with self._writing(), NamedTemporaryFile(dir=self.folder, prefix="."):
            pass

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise AbstainError(
                f"must be a folder that can be written, got {self.folder}: {error}",
                argument="store",
            ) from error

    def all(self) -> dict[str, Record]:
        """All records by their names; a damaged file is left out, and its run is then missing."""
        found = {}
        for path in sorted(self.folder.glob(_RUNS)):
            try:
                record = Record.from_json(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                _log.warning("%s is not a run, and is left out: %s", path, error)
                continue
            found[record.name] = record
        return found
