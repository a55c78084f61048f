import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from abstain.audit import audit
from abstain.scores.plateau import Beliefs
from abstain.scores.single_classes import within_classes


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


@drawn(st.lists(st.tuples(st.integers(-1, 3), st.floats(0, 1, width=16)), min_size=1))
def test_within_classes_the_order_stays(samples):
    predicted = np.array([x for x, _ in samples], np.int32)
    confidence = np.array([x for _, x in samples], np.float32)
    ranked = within_classes(Beliefs(predicted=predicted, confidence=confidence)).confidence
    for one in range(len(samples)):
        alike = predicted == predicted[one]
        below = (alike & (ranked <= ranked[one])).sum()
        assert np.isclose(ranked[one], below / alike.sum())
        assert (ranked[alike & (confidence < confidence[one])] < ranked[one]).all()
