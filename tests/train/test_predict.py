"""One small run per kind of input, and everything that can be asked of it."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from PIL import Image

from abstain.data import load
from abstain.errors import AbstainError
from abstain.scores.selective import risk_coverage, threshold_for_risk
from abstain.train import predict as module
from abstain.train.predict import check_output, predict_from
from abstain.train.recipe import Recipe
from abstain.train.run import train

# What would betray a model that still trains: both depend on the batch or on chance.
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, num_outputs, input_shape):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(input_shape[0], 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(),
            torch.nn.Dropout(0.5), torch.nn.Linear(8, num_outputs),
        )

    def forward(self, x):
        return self.layers(x)
"""
COLUMNS = ("height", "width", "depth")


def table(count, seed):
    """Classes 7 and 10 by the sign of the height, which most but not all rows show."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(count, 3)).astype(np.float32)
    kind = np.where(numbers[:, 0] + 0.3 * rng.normal(size=count) > 0, "10", "7")
    return {**dict(zip(COLUMNS, numbers.T, strict=True)), "kind": kind}


def write_csv(path, columns):
    pyarrow.csv.write_csv(pa.table(columns), path)
    return path


def write_photos(root, size, count=6):
    rng = np.random.default_rng(0)
    for name, shade in (("dark", 60), ("light", 190)):
        (root / name).mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(shade - 50, shade + 50, (size, size), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


def trained(source, folder, **settings):
    options = {name: settings.pop(name) for name in ("label", "image_size") if name in settings}
    recipe = Recipe(epochs=2, warm_up=1, precision="fp32", batch=16, **settings)
    train(source, recipe, folder=folder, **options)
    return folder


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABSTAIN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The tables that the tests read; nobody writes there."""
    folder = tmp_path_factory.mktemp("files")
    write_csv(folder / "train.csv", table(400, seed=0))
    write_csv(folder / "new.csv", table(300, seed=1))
    write_csv(folder / "trusted.csv", table(500, seed=2))
    (folder / "net.py").write_text(NET)
    return folder


@pytest.fixture(scope="session")
def table_run(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "table"
    model = f"{files / 'net.py'}:Net"
    source = str(files / "train.csv")
    return trained(source, folder, label="kind", model=model, learning_rate=0.05)


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory):
    return trained("digits", tmp_path_factory.mktemp("runs") / "digits")


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    words = np.array(["good fine film", "dull poor film", "", "a good one", "so poor a film"])
    rows = np.arange(60) % len(words)
    label = np.where(rows % 2 == 0, "pos", "neg")
    path = tmp_path_factory.mktemp("texts") / "reviews.parquet"
    pa.parquet.write_table(pa.table({"review": words[rows], "label": label}), path)
    return path


@pytest.fixture(scope="session")
def text_run(texts, tmp_path_factory):
    return trained(str(texts), tmp_path_factory.mktemp("runs") / "text")


def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


def close(one, other):
    np.testing.assert_array_equal(one.predicted, other.predicted)
    for name in ("confidence", "margin", "abstention"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=2e-6)


# What is said of a sample


def test_figures_are_those_of_the_model_in_eval_mode(table_run, files):
    predictions = predict_from(table_run, files / "new.csv", compare=True)
    run = module._Run.open(table_run)
    data = load(files / "new.csv", label="kind", features=COLUMNS)
    with torch.no_grad():
        outputs = run.model.cpu().eval()(run.encoder.encode(data)).double()
    beliefs = torch.softmax(outputs[:, :-1], -1).sort(-1, descending=True)
    np.testing.assert_array_equal(predictions.predicted, beliefs.indices[:, 0])
    np.testing.assert_allclose(predictions.confidence, beliefs.values[:, 0], atol=1e-6)
    margin = beliefs.values[:, 0] - beliefs.values[:, 1]
    np.testing.assert_allclose(predictions.margin, margin, atol=1e-6)
    reserve = torch.softmax(outputs, -1)[:, -1]
    np.testing.assert_allclose(predictions.abstention, reserve, atol=1e-6)
    assert predictions.agreement > 0.7
    wrong = predictions.predicted != data.given.numpy()
    assert predictions.aurc == risk_coverage(predictions.confidence, wrong).area
    assert predictions.expected_risk == pytest.approx(1 - predictions.confidence.mean())


def test_a_sample_is_judged_alike_in_any_batch(table_run, files, monkeypatch):
    whole = predict_from(table_run, files / "new.csv")
    monkeypatch.setattr(module, "_BATCH", 7)
    close(whole, predict_from(table_run, files / "new.csv"))
    data = load(files / "new.csv", label="kind", features=COLUMNS)
    alone = replace(data, inputs=data.inputs[:1], given=data.given[:1], ids=["a"])
    assert predict_from(table_run, alone).confidence[0] == pytest.approx(whole.confidence[0])


@pytest.mark.parametrize("score", ["abstention", "softmax", "margin"])
def test_coverage_answers_those_of_the_best_score(digits_run, score):
    predictions = predict_from(digits_run, "digits", split="test", coverage=0.3, score=score)
    key = {"abstention": -predictions.abstention, "softmax": predictions.confidence}
    key = key.get(score, predictions.margin)
    assert predictions.answered.sum() == round(0.3 * 355)
    assert key[predictions.answered].min() >= key[~predictions.answered].max()


def test_expected_risk_is_kept(digits_run):
    every = predict_from(digits_run, "digits", split="test")
    some = predict_from(digits_run, "digits", split="test", max_risk=0.6 * every.expected_risk)
    assert every.coverage == 1
    assert 0 < some.coverage < 1
    assert some.expected_risk <= 0.6 * every.expected_risk
    assert some.calibration is None
    none = predict_from(digits_run, "digits", split="test", max_risk=0.0)
    assert none.coverage == 0
    assert none.expected_risk is none.agreement is None


# Trusted labels


def test_calibration_cuts_where_the_trusted_labels_say(table_run, files):
    trusted = predict_from(table_run, files / "trusted.csv", compare=True)
    held = threshold_for_risk(trusted.confidence, trusted.predicted != trusted.given, 0.05, 0.9)
    predictions = predict_from(
        table_run, files / "new.csv", max_risk=0.05, confidence=0.9,
        calibrate=files / "trusted.csv", compare=True,
    )  # fmt: skip
    assert predictions.calibration == held
    assert 0 < predictions.coverage < 1
    np.testing.assert_array_equal(predictions.answered, predictions.confidence > held.threshold)
    assert predictions.agreement > 0.92
    again = predict_from(
        table_run, files / "trusted.csv", max_risk=0.05, confidence=0.9,
        calibrate=files / "trusted.csv",
    )  # fmt: skip
    assert again.answered.sum() == held.answered  # the sample at the threshold is not among them


def test_too_few_trusted_labels_answer_nothing(table_run, files, tmp_path):
    few = write_csv(tmp_path / "few.csv", table(30, seed=3))
    predictions = predict_from(table_run, files / "new.csv", max_risk=0.02, calibrate=few)
    assert not predictions.answered.any()
    assert predictions.calibration.bound is None


def test_calibration_on_what_was_trained_on_is_refused(table_run, files, digits_run, monkeypatch):
    monkeypatch.chdir(files)
    with pytest.raises(AbstainError, match="calibrate must be samples that the model has not seen"):
        predict_from(table_run, "new.csv", max_risk=0.5, calibrate="train.csv")
    settings = {"split": "test", "max_risk": 0.9, "calibrate": "digits"}
    with pytest.raises(AbstainError, match="got digits, split train"):
        predict_from(digits_run, "digits", calibrate_split="training", **settings)
    assert predict_from(digits_run, "digits", **settings).calibration.samples == 355


def test_a_single_file_calibrates_for_a_split(digits_run, tmp_path):
    data = load("digits", split="test")
    np.savez(tmp_path / "trusted.npz", x=data.inputs.numpy(), y=data.given.numpy())
    predictions = predict_from(
        digits_run, "digits", split="test", max_risk=0.9, calibrate=tmp_path / "trusted.npz"
    )
    assert predictions.calibration.samples == 355


# Labels to compare with


def test_labels_are_read_only_when_asked_for(digits_run):
    assert predict_from(digits_run, "digits", split="test").given is None
    predictions = predict_from(digits_run, "digits", split="test", compare=True)
    np.testing.assert_array_equal(predictions.given, load("digits", split="test").given)
    assert 0 <= predictions.agreement <= 1


def test_classes_in_another_order_are_compared_by_name(digits_run):
    data = load("digits", split="test")
    turned = replace(data, given=9 - data.given, classes=data.classes[::-1])
    expected = predict_from(digits_run, data, compare=True)
    predictions = predict_from(digits_run, turned, compare=True)
    np.testing.assert_array_equal(predictions.given, data.given)
    assert predictions.agreement == expected.agreement


def test_missing_and_foreign_labels_are_named(digits_run, table_run, tmp_path):
    data = load("digits", split="test", labelled=False)
    assert predict_from(digits_run, data).given is None
    with pytest.raises(AbstainError, match="digits must have labels to compare with"):
        predict_from(digits_run, data, compare=True)
    foreign = write_csv(tmp_path / "foreign.csv", {**table(4, 0), "kind": ["7", "8", "7", "10"]})
    with pytest.raises(AbstainError, match="must hold only the classes 7, 10, got 8"):
        predict_from(table_run, foreign, compare=True)


# Sources


def test_a_table_needs_no_label_and_no_order(table_run, files, tmp_path):
    columns = table(300, seed=1)
    expected = predict_from(table_run, files / "new.csv")
    turned = {"note": ["x"] * 300, **{name: columns[name] for name in reversed(COLUMNS)}}
    close(predict_from(table_run, write_csv(tmp_path / "turned.csv", turned)), expected)


def test_a_missing_column_is_named(table_run, tmp_path):
    columns = table(20, seed=1)
    columns["hight"] = columns.pop("height")
    path = write_csv(tmp_path / "new.csv", columns)
    with pytest.raises(AbstainError, match=r"got height; its columns are .* did you mean hight\?"):
        predict_from(table_run, path)


def test_arrays_are_taken_by_position(table_run, files, tmp_path):
    columns = table(300, seed=1)
    numbers = np.stack([columns[name] for name in COLUMNS], axis=1)
    np.savez(tmp_path / "new.npz", x=numbers, y=columns["kind"])
    expected = predict_from(table_run, files / "new.csv", compare=True)
    close(predict_from(table_run, numbers), expected)
    predictions = predict_from(table_run, tmp_path / "new.npz", compare=True)
    close(predictions, expected)
    assert predictions.agreement == expected.agreement


def test_lazy_inputs_give_the_same(table_run, files, text_run, texts, tmp_path):
    photos = write_photos(tmp_path / "photos", 16)
    image_run = trained(str(photos), tmp_path / "run", image_size=8, model="mlp")
    for run, source in ((table_run, files / "new.csv"), (text_run, texts), (image_run, photos)):
        lazily = predict_from(run, source, memory_budget=1)
        close(lazily, predict_from(run, source))
        assert len(lazily) > 1


def test_processes_that_decode_keep_the_order(table_run, files, monkeypatch):
    expected = predict_from(table_run, files / "new.csv")
    monkeypatch.setattr(module, "_BATCH", 16)  # which makes the table a long one
    close(predict_from(table_run, files / "new.csv", memory_budget=1), expected)


def test_images_are_scaled_as_in_training(tmp_path):
    photos = write_photos(tmp_path / "photos", 16)
    run = trained(str(photos), tmp_path / "run", image_size=8, model="mlp")
    larger = write_photos(tmp_path / "larger", 24)
    assert len(predict_from(run, larger)) == 12
    run = trained(str(photos), tmp_path / "run of one size", model="mlp")
    (larger / "dark" / "0.png").write_bytes((photos / "dark" / "0.png").read_bytes())
    assert len(predict_from(run, larger)) == 12  # of two sizes, and of neither was one trained on
    with pytest.raises(AbstainError, match="images must have the shape that the model was trained"):
        predict_from(run, larger, image_size=24)


def test_unreadable_images_are_counted(tmp_path):
    photos = write_photos(tmp_path / "photos", 8)
    run = trained(str(photos), tmp_path / "run", model="mlp")
    (photos / "dark" / "0.png").write_bytes(b"no image")
    predictions = predict_from(run, photos, skip_bad=True)
    assert predictions.skipped == ("dark/0.png",)
    assert len(predictions) == 11


def test_another_kind_of_data_is_refused(table_run, digits_run, text_run, files):
    with pytest.raises(AbstainError, match=r"what the model was trained on \(table\), got image"):
        predict_from(table_run, "digits")
    with pytest.raises(AbstainError, match=r"what the model was trained on \(image\), got table"):
        predict_from(digits_run, files / "new.csv", label="kind")
    with pytest.raises(AbstainError, match=r"features must name columns of .*, got review"):
        predict_from(text_run, files / "new.csv")


# Runs


def test_folders_that_hold_no_model_are_told_apart(table_run, files, tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(AbstainError, match="folder must be that of a run"):
            predict_from(folder, files / "new.csv")
    run = copied(table_run, tmp_path)
    (run / "model.safetensors").unlink()
    with pytest.raises(AbstainError, match="holds no model yet: its training has not ended"):
        predict_from(run, files / "new.csv")
    (run / "model.safetensors").write_bytes((table_run / "model.safetensors").read_bytes()[:-9])
    with pytest.raises(AbstainError, match=r"model.safetensors is broken") as caught:
        predict_from(run, files / "new.csv")
    assert "\n" not in str(caught.value)


def test_a_model_gone_astray_is_not_believed(table_run, files, monkeypatch):
    run = module._Run.open(table_run)
    torch.nn.init.constant_(run.model.layers[-1].bias, torch.nan)
    monkeypatch.setattr(module._Run, "open", lambda _: run)
    with pytest.raises(AbstainError, match="must hold a model that gives numbers"):
        predict_from(table_run, files / "new.csv")


# The table


@pytest.mark.parametrize("ending", [".csv", ".CSV", ".parquet"])
def test_what_is_written_can_be_read(table_run, files, tmp_path, ending):
    path = tmp_path / f"out{ending}"
    predictions = predict_from(table_run, files / "new.csv", coverage=0.5, compare=True)
    predictions.write(path)
    if ending == ".parquet":
        written = pyarrow.parquet.read_table(path)
        texts = {"id", "predicted_label", "given_label"}
        assert {f.name for f in written.schema if f.type == pa.string()} == texts
    else:
        as_text = pyarrow.csv.ConvertOptions(
            column_types={"id": pa.string(), "predicted_label": pa.string()},
            strings_can_be_null=True, quoted_strings_can_be_null=False,
        )  # fmt: skip
        written = pyarrow.csv.read_csv(path, convert_options=as_text)
    rows = written.to_pylist()
    assert [row["id"] for row in rows] == list(predictions.ids)
    assert [row["answered"] for row in rows] == predictions.answered.tolist()
    for row, predicted in zip(rows, predictions.predicted, strict=True):
        expected = ("7", "10")[predicted] if row["answered"] else None
        assert row["predicted_label"] == expected
    np.testing.assert_allclose([row["margin"] for row in rows], predictions.margin, rtol=1e-5)
    assert list(tmp_path.iterdir()) == [path]


def test_labels_stay_text_when_nothing_is_answered(digits_run, tmp_path):
    predictions = predict_from(digits_run, "digits", split="test", coverage=0)
    predictions.write(tmp_path / "out.parquet")
    written = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert written.schema.field("predicted_label").type == pa.string()
    assert written.column("predicted_label").null_count == 355


def test_a_write_that_fails_leaves_the_old_file(digits_run, tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def fail(_table, where):
        where.write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr(pyarrow.csv, "write_csv", fail)
    predictions = predict_from(digits_run, "digits", split="test")
    with pytest.raises(AbstainError, match=r"output must be a file that can be written.*no space"):
        predictions.write(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(digits_run, tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "out.csv")
    predict_from(digits_run, "digits", split="test").write(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 356


def test_places_that_cannot_be_written_are_refused_beforehand(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for path, message in (
        (tmp_path / "out.txt", "must end in .csv or .parquet"),
        (tmp_path / "no" / "out.csv", "must lie in a folder that exists"),
        (tmp_path / "folder.csv", "must be a file, got the folder"),
    ):
        with pytest.raises(AbstainError, match=f"output {message}"):
            check_output(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coverage": 0.5, "max_risk": 0.5}, "coverage and max_risk exclude each other"),
        ({"coverage": 1.1}, r"coverage must lie in \[0, 1\], got 1.1"),
        ({"max_risk": -0.1}, r"max_risk must lie in \[0, 1\]"),
        ({"score": "guess"}, "score must be one of abstention, softmax, margin, got 'guess'"),
        ({"calibrate": "digits"}, "calibrate needs max_risk"),
        ({"calibrate": "digits", "max_risk": 0.0}, r"max_risk must lie in \(0, 1\]"),
        ({"calibrate": "digits", "max_risk": 0.1, "confidence": 2}, "confidence must lie in"),
    ],
)
def test_wrong_settings_are_named_before_anything_is_read(settings, message):
    with pytest.raises(AbstainError, match=message):
        predict_from("nowhere", "nothing", **settings)


def test_nobody_watches_no_bar(digits_run, capfd):
    predict_from(digits_run, "digits", split="test", show=True)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_terminal_shows_a_bar(digits_run, monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # which makes rich take anything for a terminal
    predict_from(digits_run, "digits", split="test", show=True)
    assert "predicting digits" in capfd.readouterr().err
