import numpy as np
import pytest

from abstain.scores.plateau import Beliefs, find_plateau


def test_a_plateau_ends_where_errors_of_the_model_begin():
    """Sure half: 20% of the labels contradict; unsure half: the prediction is a guess."""
    rng = np.random.default_rng(0)
    true = rng.integers(4, size=8000).astype(np.int32)
    given = np.where(rng.random(8000) < 0.2, (true + 1) % 4, true).astype(np.int32)
    confidence = rng.random(8000).astype(np.float32)
    predicted = np.where(confidence > 0.5, true, rng.integers(4, size=8000)).astype(np.int32)
    early = Beliefs(predicted=predicted, confidence=confidence)
    plateau, counts = find_plateau(early, given, 4)
    assert plateau.share in (0.4, 0.5)
    assert plateau.disagreement == pytest.approx(0.2, abs=0.02)
    assert counts.sum() == plateau.samples
    assert plateau.curve[-1] == pytest.approx((predicted != given).mean())


def test_plateau_against_a_loop_over_classes():
    rng = np.random.default_rng(1)
    predicted = rng.integers(3, size=900).astype(np.int32)
    given = rng.integers(3, size=900).astype(np.int32)
    confidence = rng.permutation(900).astype(np.float32)
    predicted[:50] = -1  # not seen
    plateau, _ = find_plateau(Beliefs(predicted=predicted, confidence=confidence), given, 3)
    for tenths in range(1, 11):
        chosen = []
        for j in range(3):
            members = np.flatnonzero(predicted == j)
            members = members[np.argsort(-confidence[members])]
            ranks = (np.arange(len(members)) + 0.5) / len(members)
            chosen.extend(members[ranks < tenths / 10])
        expected = (predicted[chosen] != given[chosen]).mean()
        assert plateau.curve[tenths - 1] == pytest.approx(expected, abs=5e-3)
