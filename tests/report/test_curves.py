"""The curves of scores, risk and training."""

import math

import numpy as np
import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.report import render
from abstain.report.curves import predicted_plateau, scores, training

from audits import blobs


def test_accuracies_that_were_measured_are_drawn(digits):
    loss, accuracy = training(digits)
    names = [name for _, name in accuracy.legend]
    assert names == ["agrees with the given labels", "test accuracy"]
    assert len(loss.drawing.curves) == 1


def test_every_score_is_in_the_histogram(digits):
    (plot,) = scores(digits)
    assert {bar.style for bar in plot.drawing.bars} == {"kept", "flagged"}
    assert f"{digits.flagged} labels flagged" in plot.drawing.description


def test_without_a_training_there_are_no_curves_of_it():
    x, y = blobs(90)
    assert training(audit((x, y), probabilities=0.9 * np.eye(3)[y] + 0.1 / 3)) == []


def test_a_fixed_payoff_shows_its_plateau_and_its_stop():
    recipe = Recipe.of("aes", epochs=4, rate=0.3, flip=0.3)
    text = render(audit("digits", recipe))
    assert "predicted plateau" in text
    assert ">stop</text>" in text


@pytest.mark.parametrize(
    ("method", "name"),
    [("auto", "predicted plateau of the warm-up"), ("nll", "predicted plateau"), ("lq", None)],
)
def test_cross_entropy_has_a_plateau_too_the_entropy_of_the_labels(method, name):
    found = audit("digits", Recipe.of(method, epochs=6, flip=0.3))
    mark = predicted_plateau(found)
    assert (name is not None) == ("predicted plateau" in render(found))
    if name is None:
        assert mark is None
        return
    assert mark.text == name
    shares = np.bincount(found.verdict.predicted_label, minlength=10) / len(found.given)
    rows = [-sum(p * math.log(p) for p in row if p > 0) for row in found.verdict.transition]
    assert mark.at == pytest.approx(shares @ rows, rel=1e-6)
