"""Label Studio: tasks that name what the labelling interface names."""

import base64
import json
from xml.etree import ElementTree

import numpy as np
import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.exporting.label_studio import export_label_studio

from audits import blobs, write_images, write_texts

FLIPPED = Recipe(epochs=8, warm_up=1, flip=0.2)


def exported(source, place, recipe=FLIPPED, settings=None, **options):
    audit(source, recipe, folder=place / "audit", **options)
    saved = AuditFolder.open(place / "audit")
    count = export_label_studio(saved, place / "tasks.json", **(settings or {}))
    tasks = json.loads((place / "tasks.json").read_text(encoding="utf-8"))
    assert len(tasks) == count
    return saved, tasks, ElementTree.parse(place / "tasks.xml").getroot()


def check(tasks, interface, shown):
    """Every name in a task is one that the interface has."""
    choices = interface.find("Choices")
    shows = interface.find(shown)
    names = {choice.get("value") for choice in choices}
    assert choices.get("toName") == shows.get("name")
    for task in tasks:
        assert shows.get("value").removeprefix("$") in task["data"]
        (prediction,) = task["predictions"]
        assert 0 <= prediction["score"] <= 1
        (result,) = prediction["result"]
        assert result["from_name"] == choices.get("name")
        assert result["to_name"] == shows.get("name")
        assert result["type"] == "choices"
        assert set(result["value"]["choices"]) <= names
        assert task["data"]["given_label"] in names


def test_texts_are_tasks_worst_first(tmp_path):
    path = write_texts(tmp_path / "reviews.csv")
    saved, tasks, interface = exported(path, tmp_path, label="stars", features="text")
    check(tasks, interface, "Text")
    flagged = [row["id"] for row in saved.issues.to_pylist() if row["is_label_issue"]]
    assert [task["data"]["id"] for task in tasks] == flagged
    everything = export_label_studio(saved, tmp_path / "all.json", flagged=False)
    assert everything == saved.issues.num_rows


def test_images_are_embedded_or_addressed(tmp_path):
    root = write_images(tmp_path / "our photos", per_class=60)
    saved, tasks, interface = exported(root, tmp_path, Recipe(epochs=20))
    check(tasks, interface, "Image")
    header, _, code = tasks[0]["data"]["image"].partition(",")
    assert header == "data:image/png;base64"
    assert base64.b64decode(code).startswith(b"\x89PNG")
    for url in ("/data/local-files/?d=our%20photos/", "/data/local-files/?d=our%20photos"):
        export_label_studio(saved, tmp_path / "tasks.json", url=url)
        first = json.loads((tmp_path / "tasks.json").read_text())[0]["data"]
        assert first["image"] == f"/data/local-files/?d=our%20photos/{first['id']}"


def test_rows_are_shown_as_a_table(tmp_path):
    x, y = blobs(120)
    x = np.round(x, 2)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    _, tasks, interface = exported(tmp_path / "d.npz", tmp_path)
    check(tasks, interface, "Table")
    assert set(tasks[0]["data"]["row"]) == {f"column {k}" for k in range(4)}
    shown = [value for task in tasks for value in task["data"]["row"].values()]
    assert all(value == round(value, 2) for value in shown)  # not 0.6899999976158142


def test_other_endings_are_refused(tmp_path):
    x, y = blobs(60)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    saved, _, _ = exported(tmp_path / "d.npz", tmp_path)
    with pytest.raises(AbstainError, match=r"must end in .json"):
        export_label_studio(saved, tmp_path / "tasks.csv")
