"""Tests of the answers of a model: by coverage, by expected risk, by labels that are right."""

import numpy as np
import pytest
from predict_sources import table, write_csv

from abstain.data import load
from abstain.errors import AbstainError
from abstain.predicting.predict import predict_from
from abstain.scores.selective import threshold_for_risk


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
