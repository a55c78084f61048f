"""A finished run predicts for every kind of source, as the model alone would."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from predict_sources import COLUMNS, table, trained, write_csv, write_photos
from sklearn.datasets import load_digits

from abstain.data import load
from abstain.errors import AbstainError
from abstain.predicting import finished_run as predict_run
from abstain.predicting.finished_run import FinishedRun
from abstain.predicting.predict import predict_from
from abstain.scores.selective import risk_coverage


def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


def close(one, other):
    np.testing.assert_array_equal(one.predicted, other.predicted)
    for name in ("confidence", "margin", "abstention"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=2e-6)


# The figures of a sample


def test_figures_are_those_of_the_model_in_eval_mode(table_run, files):
    predictions = predict_from(table_run, files / "new.csv", compare=True)
    run = FinishedRun.open(table_run)
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
    monkeypatch.setattr(predict_run, "_BATCH", 7)
    close(whole, predict_from(table_run, files / "new.csv"))
    data = load(files / "new.csv", label="kind", features=COLUMNS)
    alone = replace(data, inputs=data.inputs[:1], given=data.given[:1], ids=["a"])
    assert predict_from(table_run, alone).confidence[0] == pytest.approx(whole.confidence[0])


def test_what_train_and_audit_give_predicts_as_its_folder_does(tmp_path):
    from abstain import Recipe, audit, train

    x, y = load_digits(return_X_y=True)
    seen, new, recipe = (x[:600], y[:600]), x[600:700], Recipe.of("auto", epochs=4)
    saved = train(seen, recipe, folder=tmp_path / "run")
    saved.model.train()  # by someone who goes on with it
    close(predict_from(saved, new), predict_from(tmp_path / "run", new))
    assert saved.model.training
    kept = train(seen, recipe)
    expected = kept.model(kept.encoder.to_model(kept.encoder.encode(load(new, labelled=False))))
    np.testing.assert_array_equal(predict_from(kept, new).predicted, expected[:, :-1].argmax(1))
    found = audit(seen, recipe)
    close(predict_from(found, new), predict_from(found.trained, new))
    with pytest.raises(AbstainError, match="run must have a model, got an audit of probabilities"):
        predict_from(audit(seen, probabilities=np.full((600, 10), 0.1)), new)


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
    with pytest.raises(AbstainError, match=r"classes of the training data \(7, 10\), got 8"):
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
    with pytest.raises(AbstainError, match=r"got no height; its col.* did you mean hight\?"):
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
    monkeypatch.setattr(predict_run, "_BATCH", 16)  # which makes the table a long one
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
    with pytest.raises(AbstainError, match=r"must have the columns .* trained on, got no review"):
        predict_from(text_run, files / "new.csv")


# Runs


def test_folders_without_a_model_are_each_refused_with_the_reason(table_run, files, tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(AbstainError, match="folder must be the folder of a run"):
            predict_from(folder, files / "new.csv")
    with pytest.raises(AbstainError, match=r"no run\.json: if a run was killed .* remove the"):
        predict_from(tmp_path, files / "new.csv")
    with pytest.raises(AbstainError, match=r"no run\.json$"):  # nobody's photos are to be removed
        predict_from(files, files / "new.csv")
    run = copied(table_run, tmp_path)
    (run / "model.safetensors").unlink()
    with pytest.raises(AbstainError, match="holds no model yet: its training has not ended"):
        predict_from(run, files / "new.csv")
    (run / "model.safetensors").write_bytes((table_run / "model.safetensors").read_bytes()[:-9])
    with pytest.raises(AbstainError, match=r"model.safetensors is broken") as caught:
        predict_from(run, files / "new.csv")
    assert "\n" not in str(caught.value)


def test_a_model_gone_astray_is_not_believed(table_run, files, monkeypatch):
    run = FinishedRun.open(table_run)
    torch.nn.init.constant_(run.model.layers[-1].bias, torch.nan)
    monkeypatch.setattr(FinishedRun, "open", lambda *_: run)
    with pytest.raises(AbstainError, match="must hold a model that gives numbers"):
        predict_from(table_run, files / "new.csv")


# The bar


def test_nobody_watches_no_bar(digits_run, capfd):
    predict_from(digits_run, "digits", split="test", show=True)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_terminal_shows_a_bar(digits_run, monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # which makes rich take anything for a terminal
    predict_from(digits_run, "digits", split="test", show=True)
    assert "predicting digits" in capfd.readouterr().err
