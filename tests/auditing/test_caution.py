"""Tests of caution.py: what a user has to know before believing a noise rate."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.scores.sampling import draw

from audits import blobs


@pytest.fixture(scope="module")
def digits():
    return audit("digits", Recipe(epochs=4, warm_up=1, flip=0.2))


def test_an_estimate_is_called_one_and_the_command_that_measures_is_named(digits, tmp_path):
    kept = replace(digits, folder=tmp_path / "my audit")
    assert re.fullmatch(
        r".*estimate from the labels alone.* errors that depend on the inputs.* check 200 labels: "
        r"abstain verify '.*/my audit'",
        kept.caution,
    )
    in_memory = replace(kept, sources={**kept.sources, "train": None})
    assert in_memory.caution.endswith("my audit' --size 200")  # nobody else can show the samples
    assert kept.summary()["caution"] == kept.caution
    assert "audit into a folder" in digits.caution


def test_a_set_smaller_than_those_that_taught_is_said_to_be_small(digits, tmp_path):
    assert "fitted on sets of 742" not in digits.caution
    rows = np.random.default_rng(0).normal(size=(90, 3)).astype(np.float32)
    few = audit((rows, (rows[:, 0] > 0).astype(int)), Recipe(epochs=2, warm_up=1))
    assert "fitted on sets of 742 samples and more: for 90 labels" in few.caution
    assert "To know the rate, check all 90 labels: " in few.caution
    ids, names = few.data.ids, few.data.classes
    sample = draw(few.verdict.wrong_probability, 1, np.random.default_rng(0))
    one = few.with_reviewed({ids[k]: names[few.given[k]] for k in sample.rows}, sample=sample)
    one = replace(one, folder=tmp_path)
    assert "Of a random sample 1 label was checked. " in one.caution


def test_probabilities_of_a_model_that_saw_the_labels_are_called_in_sample():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(800, 5)).astype(np.float32)
    given = np.where(rng.random(800) < 0.2, rng.integers(2, size=800), samples[:, 0] > 0)
    forest = RandomForestClassifier(random_state=0)
    in_sample = forest.fit(samples, given).predict_proba(samples)
    assert "(in-sample)" in audit((samples, given), probabilities=in_sample).caution
    out_of_sample = cross_val_predict(forest, samples, given, method="predict_proba")
    assert "(in-sample)" not in audit((samples, given), probabilities=out_of_sample).caution


def test_a_measured_rate_needs_no_caution(digits):
    sample = draw(digits.verdict.wrong_probability, 60, np.random.default_rng(0))
    answers = {digits.data.ids[k]: digits.data.classes[digits.given[k]] for k in sample.rows}
    assert digits.with_reviewed(answers, sample=sample).caution is None


def test_a_weak_model_is_called_weak():
    """Features that say nothing of the labels: what is doubted was guessed."""
    rng = np.random.default_rng(0)
    for shape in ((300, 4), (600, 50)):
        samples = rng.normal(size=shape).astype(np.float32)
        guessed = audit((samples, rng.integers(3, size=len(samples))))
        assert re.match(
            r"The model predicted \d+% of the held-out labels, hardly more than the commonest "
            r"class alone would: .*\(--features\) may tell more. This is an estimate",
            guessed.caution,
        )


def test_a_backbone_that_tells_nothing_is_answered_by_another_one(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path))
    guessed = audit((["good film", "bad film"] * 60, np.arange(120) // 2 % 2))
    assert guessed.trained.plan.backbone == "small:wordllama"
    assert "Another backbone (--backbone) may tell more." in guessed.caution


def test_a_method_that_holds_out_no_labels_is_named():
    found = audit(blobs(), Recipe.of("nll", epochs=2))
    assert found.caution.startswith("The method nll holds out no labels")


def test_probabilities_that_tell_nothing_are_called_weak():
    rng = np.random.default_rng(0)
    x, y = blobs(300)
    found = audit((x, rng.permutation(y)), probabilities=rng.dirichlet(np.ones(3), 300))
    assert re.search(r"predicted 3\d% of the labels, hardly more .* better model", found.caution)
