"""The labels as they were reviewed, as a table with new columns or as a folder of images.

A table has all rows, those of the source's own file where it is one. Labels that nobody decided are
as given.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from abstain.auditing.answers import Answer
from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.exporting.corrected import Corrected, corrected
from abstain.exporting.files import Exported, Form, check_own_files, write_table
from abstain.exporting.rows import table_of
from abstain.support.optional import require
from abstain.support.wording import some

if TYPE_CHECKING:
    import pyarrow as pa

CORRECTED = "corrected_label"
_COLUMNS = (CORRECTED, "decision", "decided_by", "note")


class Decided(NamedTuple):
    """The answer in force for a label, and who decided it."""

    answer: Answer | None
    who: str | None
    note: str


def export_reviewed(
    audit: AuditFolder,
    target: Path,
    decided: Mapping[str, Decided],
    *,
    copies: bool,
    whole_paths: bool = False,
) -> Exported:
    """Write what was decided of the labels, and no other change.

    Args:
        audit: The audit.
        target: A .csv or .parquet for a table; without an ending, a folder of images.
        decided: What was decided, by id.
        copies: For a folder: copies rather than links.
        whole_paths: In a table: paths of images that hold wherever it is moved.
    """
    check_own_files(audit, target)
    answers = {id_: x.answer for id_, x in decided.items() if x.answer is not None}
    if target.suffix.lower() in (".csv", ".parquet"):
        found, table = _table(audit, answers, None if whole_paths else target.parent)
        if taken := [name for name in _COLUMNS if name in table.column_names]:
            raise AbstainError(f"the source must have no column {taken[0]!r} of its own, got one")
        for name, values in zip(_COLUMNS, _columns(found, decided), strict=True):
            table = table.append_column(name, [values])
        write_table(table, target, for_people=True)
        return found.exported(target, {"label": CORRECTED}, table.num_rows)
    if target.suffix:
        raise AbstainError(
            f"must end in .csv or .parquet, or be a folder for images, got {target}",
            argument="out",
        )
    source, found = _image_folder(audit, target), corrected(audit, answers)
    _write_folder(found, source, target, copies=copies)
    return found.exported(target, {})


def _table(
    audit: AuditFolder, answers: Mapping[str, Answer], place: Path | None
) -> tuple[Corrected, "pa.Table"]:
    """The corrected labels, and all rows as they were given, in the same order."""
    pa = require("pyarrow", "a table")
    sources, table = audit.summary["sources"], None
    data = None if sources["train"] is None else audit.load().as_shown
    found = corrected(audit, answers, data=data)
    if data is not None:
        table = table_of(sources, data, found.as_given, place)
    if table is None:
        given = np.array(found.classes, dtype=object)[found.given]
        texts = {"id": found.ids, "label": given.tolist()}
        table = pa.table({name: pa.array(x, pa.string()) for name, x in texts.items()})
    if Form.of(sources).files:
        return found, table
    names = ["given_label" if name == "label" else name for name in table.column_names]
    return found, table.rename_columns(names)


def _columns(found: Corrected, decided: Mapping[str, Decided]) -> list["pa.Array"]:
    """The new columns: the corrected label, what was decided, by whom, and their note."""
    pa = require("pyarrow", "a table")
    names = np.array(found.classes, dtype=object)
    nothing = Decided(None, None, "")
    of_row = [decided.get(id_, nothing) for id_ in found.ids]
    kinds = [x.answer and x.answer.kind for x in of_row]
    words = [
        ("kept" if same else "changed") if kind == "label" else kind
        for kind, same in zip(kinds, (found.labels == found.given).tolist(), strict=True)
    ]
    people, notes = [x.who for x in of_row], [x.note or None for x in of_row]
    after = pa.array(names[found.labels].tolist(), pa.string(), mask=~found.keep)
    return [after, *(pa.array(values, pa.string()) for values in (words, people, notes))]


def _image_folder(audit: AuditFolder, target: Path) -> Path:
    """The image folder that was audited, or an error if none can be written to the target."""
    source = Form.of(audit.summary["sources"]).folder
    if audit.summary["inputs"] != "image" or source is None:
        raise AbstainError(
            f"must end in .csv or .parquet for what is no image folder, got {target}",
            argument="out",
        )
    if target.exists() and any(target.iterdir()):
        raise AbstainError(f"must be a new or empty folder, got {target}", argument="out")
    for label in audit.classes:
        if Path(label).name != label or label in ("", ".", ".."):
            raise AbstainError(f"a class must be a name that a folder can have, got {label!r}")
    audit.load()  # or an error, if the source has other samples now
    return source


def _write_folder(found: Corrected, source: Path, target: Path, *, copies: bool) -> None:
    """Write images under the folder of their corrected class."""
    rows, root = found.rows.tolist(), source.resolve()
    ids = [found.ids[row] for row in rows]
    outside = [x for x in ids if not (source / x).resolve().is_relative_to(root)]
    if outside:  # the page shows none of them either
        raise AbstainError(
            f"links out of {source} are not followed, got {some(outside, 3)}",
            remedy="put the files there, or export a table",
        )
    taken: set[Path] = set()
    for row in rows:
        label, origin = found.classes[found.labels[row]], source / found.ids[row]
        name = Path(found.ids[row]).name
        if found.labels[row] != found.given[row]:  # two classes may have a 1.png each
            name = f"{found.classes[found.given[row]]}-{name}"
        place, count = target / label / name, 1
        while place in taken:
            count += 1
            place = target / label / f"{Path(name).stem}-{count}{Path(name).suffix}"
        taken.add(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not copies:
            with suppress(OSError):  # of another file system there are only copies
                os.link(origin.resolve(), place)
                continue
        shutil.copyfile(origin, place)
