import numpy as np
import pytest

from abstain.audit import audit
from abstain.scores.plateau import Beliefs
from abstain.scores.single_classes import classes_by_themselves


@pytest.mark.parametrize("pairs", [{1: 3}, {1: 3, 0: 2}])
def test_wrong_labels_of_some_classes_alone_are_counted(pairs):
    """The model is surest of the other classes, none of whose labels are wrong."""
    rng = np.random.default_rng(0)
    true = rng.integers(5, size=1500)
    centres = rng.normal(size=(5, 20)) * 1.4
    features = (centres[true] + rng.normal(size=(1500, 20))).astype(np.float32)
    given = true.copy()
    for one, other in pairs.items():
        given[(true == one) & (rng.random(1500) < 0.3)] = other
    found = audit((features, given))
    truth = float((given != true).mean())
    assert truth in found.noise_rate
    assert abs(found.noise_rate.value - truth) < 0.02
    assert found.flagged > 0.7 * 1500 * truth
    clean = audit((features, true)).noise_rate
    assert clean.value < 0.005
    assert clean.high < 0.03


@pytest.mark.parametrize("surest", [0.0, 0.3])
def test_a_class_of_its_own_counts_however_sure_the_model_is_of_it(surest):
    """30% of one class of five are wrong; the surest of all have none of it, or as many."""
    rng = np.random.default_rng(1)
    predicted = rng.integers(5, size=5000).astype(np.int32)
    wrong = (predicted == 1) & (rng.random(5000) < 0.3)
    given = np.where(wrong, 3, predicted).astype(np.int32)
    beliefs = Beliefs(predicted=predicted, confidence=rng.random(5000).astype(np.float32))
    counts = np.diag(np.full(5, 100.0))
    counts[1] = [0, 100 * (1 - surest), 0, 100 * surest, 0]
    found = classes_by_themselves(beliefs, given, counts)
    assert found.own == pytest.approx(wrong.mean(), abs=0.01)
    assert found.added == pytest.approx(0 if surest else found.own, abs=0.01)
    # Where the model takes it for another class, it is contradicted the less the surer it is.
    steep = Beliefs(predicted=predicted, confidence=np.where(wrong, 0.2, beliefs.confidence + 0.2))
    assert classes_by_themselves(steep, given, counts).own == 0
