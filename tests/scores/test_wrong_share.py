import numpy as np
import pytest

from abstain.scores.held_out import HeldOut
from abstain.scores.plateau import Beliefs, find_plateau
from abstain.scores.wrong_share import share_by_first_epochs, share_by_one_epoch


@pytest.mark.parametrize("m", [2, 6])
@pytest.mark.parametrize("told", ["all", "nothing"])
def test_a_single_epoch_is_believed_as_far_as_its_errors_let_it(m, told):
    """10% of labels are wrong; the model knows the classes, or guesses them and is sure of it."""
    rng = np.random.default_rng(0)
    true = rng.integers(m, size=4000).astype(np.int32)
    wrong = rng.random(4000) < 0.1
    given = np.where(wrong, (true + rng.integers(1, m, 4000)) % m, true).astype(np.int32)
    predicted = true if told == "all" else rng.integers(m, size=4000).astype(np.int32)
    beliefs = Beliefs(predicted=predicted, confidence=rng.random(4000).astype(np.float32))
    rows = np.arange(400)
    held_out = HeldOut(epoch=1, accuracy=float((predicted == given)[rows].mean()), rows=rows)
    plateau, _ = find_plateau(beliefs, given, m)
    early = share_by_first_epochs(given, beliefs, [plateau], plateau.disagreement, m)
    share = share_by_one_epoch(early, beliefs, given, held_out)
    assert share.low <= wrong.mean() <= share.high
    if told == "all":
        assert share.value == pytest.approx(wrong.mean(), abs=0.02)
        assert share.trust == 1
        assert share.low > 0.05
    else:
        assert early.value > 0.4
        assert share.value < 0.1
        assert share.trust == 0
        assert share.low == 0
