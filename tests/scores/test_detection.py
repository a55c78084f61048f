"""`detection` against scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from abstain.errors import AbstainError
from abstain.scores.detection import detection


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=1))
def test_it_agrees_with_scikit_learn_ties_and_all(rows):
    score = np.array([row[0] / 5 for row in rows])
    flagged, wrong = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    found = detection(score, flagged, wrong)
    assert found.wrong == wrong.sum()
    if 0 < wrong.sum() < len(wrong):
        assert found.auroc == pytest.approx(roc_auc_score(wrong, -score))
    else:
        assert math.isnan(found.auroc)
    if wrong.any():
        assert found.average_precision == pytest.approx(average_precision_score(wrong, -score))
    if wrong.any() and flagged.any():
        assert found.f1 == pytest.approx(f1_score(wrong, flagged))


def test_json_has_no_nan():
    assert detection([0.1, 0.2], [False, False], [False, False]).as_json()["auroc"] is None


def test_other_lengths_are_refused():
    with pytest.raises(AbstainError, match="one value per sample"):
        detection([0.1, 0.2], [True], [True, False])
