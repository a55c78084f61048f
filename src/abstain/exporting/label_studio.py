"""Label Studio: the flagged labels as tasks, worst first, with what is proposed as a prediction.

A task has `data` (what is shown) and `predictions` (what is already chosen when it opens); the
names in `from_name` and `to_name` are those of the labelling interface, which is written beside.
Labels that were reviewed have `annotations`, as Label Studio's own export has them.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from torch import as_tensor

from abstain import __version__
from abstain.arguments import typed
from abstain.auditing.answers import ANSWER, NO_CLASS
from abstain.auditing.folder import AuditFolder
from abstain.data import LabeledData
from abstain.errors import AbstainError
from abstain.exporting.files import write_file
from abstain.exporting.issues import with_answers
from abstain.showing.as_html import data_uri

CHOICES = "label"
_SHOWN: Mapping[str, tuple[str, str]] = {
    "image": ("image", '<Image name="image" value="$image"/>'),
    "text": ("text", '<Text name="text" value="$text"/>'),
    "table": ("row", '<Table name="row" value="$row"/>'),
}
_SIDE = 512


@typed()
def export_label_studio(
    audit: AuditFolder,
    out: str | os.PathLike[str],
    *,
    flagged: bool = True,
    url: str | None = None,
) -> int:
    """Write tasks to import, and beside them the labelling interface (.xml); how many there are.

    Args:
        audit: The audit.
        out: The file to write, a .json.
        flagged: Only the flagged labels; else all.
        url: What stands before the id of an image to make its address, such as
            `/data/local-files/?d=photos/`; without it small images are written into the tasks.
    """
    target = Path(out)
    if target.suffix.lower() != ".json":
        raise AbstainError(f"must end in .json for Label Studio, got {target}", argument="out")
    data = audit.load(shown_only=True)
    tasks = _tasks(audit, data, flagged=flagged, url=url)
    text = json.dumps(tasks, ensure_ascii=False, indent=1)
    write_file(target, lambda path: path.write_bytes(text.encode("utf-8", "replace")))
    beside, shown = target.with_suffix(".xml"), interface(data).encode("utf-8", "replace")
    write_file(beside, lambda path: path.write_bytes(shown))
    return len(tasks)


def interface(data: LabeledData) -> str:
    """The labelling interface: what is shown, and one choice for each class.

    >>> import torch
    >>> data = LabeledData(inputs=["fine"], given=torch.tensor([0]), classes=("good", "<bad>"),
    ...                    ids=("a",), kind="text")
    >>> print(interface(data))
    <View>
      <Text name="text" value="$text"/>
      <Header value="Given: $given_label"/>
      <Choices name="label" toName="text" choice="single" showInline="true">
        <Choice value="good"/>
        <Choice value="&lt;bad&gt;"/>
      </Choices>
    </View>
    """
    name, shown = _SHOWN[data.kind]
    choices = "\n".join(f"    <Choice value={quoteattr(text)}/>" for text in data.classes)
    return (
        f'<View>\n  {shown}\n  <Header value="Given: $given_label"/>\n'
        f'  <Choices name="{CHOICES}" toName="{name}" choice="single" showInline="true">\n'
        f"{choices}\n  </Choices>\n</View>"
    )


@typed()
def read_label_studio(path: str | os.PathLike[str]) -> dict[str, str]:
    """Classes by id, from tasks as Label Studio exports them (JSON); of several answers, the last.

    Args:
        path: The file.
    """
    try:
        tasks = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise ValueError("it holds no list of tasks")
        answers = {}
        for task in tasks:
            done = [x for x in task.get("annotations", ()) if not x.get("was_cancelled")]
            results = [r for one in done for r in one["result"] if r["from_name"] == CHOICES]
            if results:
                answers[str(task["data"]["id"])] = str(results[-1]["value"]["choices"][0])
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise AbstainError(
            f"must be tasks as Label Studio exports them, got {path}: {_why(error)}",
            argument="reviewed",
        ) from error
    if not answers:
        raise AbstainError(f"must hold annotations, got none in {path}", argument="reviewed")
    return answers


def _why(error: Exception) -> str:
    """The fault of a file in words, not in those of Python."""
    if isinstance(error, KeyError):
        return f"a task or an annotation lacks {error}"
    return str(error) if isinstance(error, OSError | ValueError) else "its tasks have another form"


def _tasks(
    audit: AuditFolder, data: LabeledData, *, flagged: bool, url: str | None
) -> list[dict[str, Any]]:
    name, _ = _SHOWN[data.kind]
    row = {id_: k for k, id_ in enumerate(data.ids)}
    tasks = []

    def chosen(label: str) -> dict[str, Any]:
        names = {"from_name": CHOICES, "to_name": name, "type": "choices"}
        return {**names, "value": {"choices": [label]}}

    for issue in with_answers(audit.issues, audit.answers()).to_pylist():
        answer = issue[ANSWER]
        if issue[NO_CLASS] == "drop":
            continue
        if flagged and not issue["is_label_issue"] and answer is None:
            continue
        reviewed = {} if answer is None else {"annotations": [{"result": [chosen(answer)]}]}
        tasks.append(
            {
                **reviewed,
                "data": {
                    name: _shown(data, row[issue["id"]], url),
                    "id": issue["id"],
                    "given_label": issue["given_label"],
                    "label_score": round(issue["label_score"], 6),
                },
                "predictions": [
                    {
                        "model_version": f"abstain {__version__}",
                        "score": round(issue["confidence"], 6),
                        "result": [chosen(issue["predicted_label"])],
                    }
                ],
            }
        )
    return tasks


def _shown(data: LabeledData, index: int, url: str | None) -> object:
    if data.kind == "text":
        return str(data.inputs[index])
    if data.kind == "table":
        return data.row(index)
    if url is not None:
        return url + ("" if url.endswith(("/", "=")) else "/") + quote(data.ids[index])
    return data_uri(as_tensor(data.inputs[index]).numpy(), side=_SIDE)[0]
