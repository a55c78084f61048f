"""The audit: from any source to a verdict that does not look at true labels.

Tests of audit.py and probabilities.py.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import abstain
from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.data import LabeledData, load
from abstain.errors import AbstainError
from abstain.exporting.cleaned import export_cleaned
from abstain.predicting.predict import predict_from
from abstain.report import write_report

from audits import blobs, write_images, write_texts

SHORT = Recipe(epochs=6, warm_up=1)


def test_the_verdict_finds_planted_errors(planted):
    found = planted.detection
    assert found.auroc > 0.98
    assert found.average_precision > 0.9
    assert found.precision > 0.75
    assert found.recall > 0.8
    assert planted.noise_rate.low <= found.rate <= planted.noise_rate.high
    assert planted.planted[planted.order[:100]].mean() > 0.95


def test_a_killed_audit_is_taken_up_to_the_same_verdict(planted):
    before = (planted.folder / "issues.parquet").read_bytes()
    for name in ("summary.json", "issues.parquet", "issues.csv"):
        (planted.folder / name).unlink()
    with pytest.raises(AbstainError, match="abstain audit --resume"):
        AuditFolder.open(planted.folder)
    again = audit(folder=planted.folder, resume=True)
    assert again.noise_rate == planted.noise_rate
    assert (planted.folder / "issues.parquet").read_bytes() == before
    assert AuditFolder.open(planted.folder).summary["flagged"] == planted.flagged


def test_a_training_that_is_taken_up_leaves_the_verdict_on_it(planted):
    before = (planted.folder / "summary.json").read_bytes()
    abstain.train(folder=planted.folder, resume=True)
    assert (planted.folder / "summary.json").read_bytes() == before


def test_true_labels_are_not_looked_at_unless_they_are_the_planted_ones():
    x, y = blobs()
    data = load((x, y))
    one = audit(data, SHORT)
    other = audit(replace(data, true=1 - data.given.clamp(max=1)), SHORT)
    assert other.detection is None
    assert other.planted is None
    assert "detection" not in other.summary()
    assert one.issues.equals(other.issues)


def test_the_verdict_depends_on_nothing_but_data_and_recipe():
    one, two = (audit(blobs(), SHORT) for _ in range(2))
    assert one.issues.equals(two.issues)
    assert one.noise_rate == two.noise_rate


def test_clean_labels_raise_no_alarm():
    found = audit(blobs(300), Recipe(epochs=20))
    assert found.noise_rate.low <= 0.01
    assert found.flagged <= 6


def test_a_csv_of_texts(tmp_path):
    path = write_texts(tmp_path / "reviews.csv")
    found = audit(path, Recipe(epochs=6, flip=0.15), label="stars", features="text")
    assert found.data.kind == "text"
    assert found.detection.auroc > 0.8


def test_an_image_folder(tmp_path):
    found = audit(write_images(tmp_path / "photos", per_class=100), Recipe(epochs=30))
    wrong = np.array([int(id_.split("/")[1].split(".")[0]) % 5 == 0 for id_ in found.data.ids])
    assert found.noise_rate.low <= wrong.mean() <= found.noise_rate.high
    assert (found.verdict.is_label_issue == wrong).mean() > 0.9


def test_a_data_frame_with_ids_of_its_own():
    x, y = blobs(90)
    frame = pd.DataFrame(x, columns=list("abcd"), index=[f"row {k}" for k in range(90)])
    frame["label"] = [f"class {k}" for k in y]
    found = audit(frame, SHORT)
    assert set(found.issues["id"].to_pylist()) == set(frame.index)
    assert found.sources["train"] is None


def test_duplicates_that_disagree_are_found():
    x, y = blobs(60)
    found = audit((np.concatenate([x, x[:2]]), np.concatenate([y, y[:1] + 1, y[1:2]])), SHORT)
    assert len(found.duplicates) == 1
    assert sorted(found.duplicates.members.tolist()) == [0, 60]
    assert found.summary()["disagreeing_duplicates"] == 1


def test_features_are_trained_on_while_the_source_is_shown(tmp_path):
    path = write_texts(tmp_path / "reviews.csv", count=90)
    x = np.random.default_rng(0).normal(size=(90, 5)) + 3 * (np.arange(90) % 2)[:, None]
    np.save(tmp_path / "x.npy", x)
    settings = {"label": "stars", "folder": tmp_path / "audit"}
    found = audit(path, SHORT, features=tmp_path / "x.npy", **settings)
    assert found.trained.plan.model == "mlp"
    assert found.data.kind == "text"
    assert "fine" in found.data.inputs[2] or "kind" in found.data.inputs[2]
    again = audit(folder=tmp_path / "audit", resume=True)
    assert again.data.kind == "text"
    assert again.issues.equals(found.issues)
    in_memory = audit(path, SHORT, features=x, label="stars")
    assert in_memory.data.kind == "text"
    assert in_memory.issues.equals(found.issues)


def test_sizes_survive_a_folder(tmp_path):
    """JSON knows no tuples."""
    root = write_images(tmp_path / "photos", per_class=10)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 3)))
    options = {"image_size": (4, 6), "features": str(tmp_path / "x.npy")}
    audit(root, SHORT, folder=tmp_path / "audit", **options)
    assert audit(folder=tmp_path / "audit", resume=True).data.inputs[0].shape == (1, 4, 6)
    loaded = AuditFolder.open(tmp_path / "audit").load()
    assert loaded.as_shown.inputs[0].shape == (1, 4, 6)
    assert loaded.inputs.shape == (20, 3)


def test_probabilities_need_no_training(tmp_path):
    x, y = blobs(90)
    true = y.copy()
    y[:9] = (y[:9] + 1) % 3
    probabilities = 0.9 * np.eye(3)[true] + 0.1 / 3
    found = audit((x, y), probabilities=probabilities, folder=tmp_path / "audit")
    assert found.model is None
    assert found.issues["id"].to_pylist()[:9] == [str(k) for k in range(9)]
    assert found.issues["predicted_label"].to_pylist()[:9] == [str(k) for k in true[:9]]
    assert found.noise_rate.low <= 0.1 <= found.noise_rate.high
    saved = AuditFolder.open(tmp_path / "audit")
    assert "training" not in saved.summary
    with pytest.raises(AbstainError, match="data in memory"):
        saved.load()
    with pytest.raises(AbstainError, match=r"audit of probabilities .* without a training"):
        predict_from(tmp_path / "audit", (x, y))
    from_a_model = torch.tensor(probabilities, requires_grad=True)
    assert audit((x, y), probabilities=from_a_model).noise_rate == found.noise_rate
    rounded = probabilities * 1.02  # as naive Bayes sums up, in single precision
    assert audit((x, y), probabilities=rounded).noise_rate == found.noise_rate


def test_columns_that_name_classes_say_whose_probabilities_they_hold():
    x, true = blobs(90)
    names = np.array(["low", "mid", "high"])
    y = names[true]
    y[:9] = "mid"
    p = 0.9 * np.eye(3)[true] + 0.1 / 3  # in the order of `names`, which is not sorted
    found = audit((x, y), probabilities=p[:, [2, 0, 1]])
    assert found.data.classes == ("high", "low", "mid")
    named = pd.DataFrame(p, columns=names)
    same = audit((x, y), probabilities=named).verdict.label_score
    np.testing.assert_array_equal(same, found.verdict.label_score)
    unnamed = pd.DataFrame(p[:, [2, 0, 1]])
    same = audit((x, y), probabilities=unnamed).verdict.label_score
    np.testing.assert_array_equal(same, found.verdict.label_score)
    with pytest.raises(AbstainError, match="name the classes high, low, mid, got low, mid, hi"):
        audit((x, y), probabilities=named.rename(columns={"high": "hi"}))


P = np.full((90, 3), 1 / 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"probabilities": P[:, :2]}, r"shape \(samples, classes\), \(90, 3\), got \(90, 2\)"),
        ({"probabilities": np.eye(3)[P.argmax(1)]}, "0 and 1 alone in every row.*; give what pred"),
        ({"probabilities": P * 2}, "must sum to 1 in every row, got 2 in row 0"),
        ({"probabilities": P * 0.88}, r"0.88 .*\(90 such rows\); divide each row of probabil"),
        ({"probabilities": P * np.nan}, "numbers of 0 or more"),
        ({"probabilities": P - 1}, "numbers of 0 or more"),
        ({"probabilities": "probabilities.npy"}, "an array of numbers .*, got: could not convert"),
        ({"probabilities": [[1.0], [0.5, 0.5]]}, "an array of numbers .*, got: setting an array"),
        ({"probabilities": P, "method": "nll"}, "leave out method"),
        ({"probabilities": P, "resume": True}, "leave out resume"),
        ({"probabilities": P, "features": P}, "leave out features"),
        ({"recipe": SHORT, "method": "nll"}, "exclude each other"),
        ({"method": "nill"}, "did you mean nll"),
        ({"features": np.zeros((80, 2))}, "one row for each of 90 samples"),
        ({"features": np.full((90, 2), np.nan)}, "must be finite"),
        ({"features": "nowhere.npy"}, "a file that exists"),
        ({"resume": True}, "resume needs the folder"),
        ({"recipe": "auto"}, "recipe must be a Recipe, .* got 'auto'; .* given as method="),
        ({"methd": "auto"}, "of audit must be known, got 'methd'; did you mean method"),
        ({"out": "here"}, "of audit must be known, got 'out'; known are source, .*folder"),
        ({"probabilities": P, "lable": "y"}, "got 'lable'; did you mean label"),
        ({"labelled": False}, "got 'labelled'; did you mean label"),
        ({"epochs": 5}, r"epochs must be set in the recipe, Recipe.of\('auto', epochs=5\)"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(tmp_path, settings, message):
    folder = {} if settings.get("resume") else {"folder": tmp_path / "audit"}
    with pytest.raises(AbstainError, match=message):
        audit(blobs(90), **folder, **settings)
    assert not (tmp_path / "audit").exists()


def test_no_folder_is_written_over(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for settings in ({}, {"probabilities": P}):
        with pytest.raises(AbstainError, match="folder must be new or empty"):
            audit(blobs(90), folder=tmp_path, **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_package_itself_takes_the_call():
    result = abstain.audit(blobs(60), Recipe(epochs=2, warm_up=1))
    assert isinstance(result.model, torch.nn.Module)
    assert isinstance(result.data, LabeledData)


@pytest.mark.parametrize("form", ["labels only", "paths to nowhere", "photos of several sizes"])
def test_what_is_only_shown_need_not_be_fit_for_training(tmp_path, form):
    """Embeddings are often all that is left: their images lie elsewhere, or are of any size."""
    x, y = blobs(40, classes=2)
    np.save(tmp_path / "x.npy", x)
    source = tmp_path / "labels.csv"
    if form == "photos of several sizes":
        source = write_images(tmp_path / "photos", per_class=20)
        for k in range(5):
            Image.new("L", (9 + k, 12)).save(source / "dark" / f"{k}.png")
        (source / "light" / "0.png").write_bytes(b"no image")
    elif form == "labels only":
        source.write_text("label\n" + "".join(f"{label}\n" for label in y))
    else:
        source.write_text(
            "file,label\n" + "".join(f"{k}.jpg,{label}\n" for k, label in enumerate(y))
        )
    found = audit(source, SHORT, features=tmp_path / "x.npy", folder=tmp_path / "audit")
    assert len(found.data) == 40
    assert len(found.duplicates) == 0
    write_report(found, tmp_path / "report.html")
    written = export_cleaned(AuditFolder.open(tmp_path / "audit"), tmp_path / "clean.csv")
    assert written.rows == 40
