import numpy as np

from abstain.checks.classes import class_imbalance


def test_every_class_below_a_tenth_of_an_even_share_is_flagged():
    given = np.repeat([0, 1, 2, 4], [500, 480, 12, 8])  # no sample has class 3
    found = class_imbalance(given)
    for k, count in ((0, 500), (1, 480), (2, 12), (4, 8)):
        share = count / (1000 / 4)
        assert (found.is_issue[given == k] == (share < 0.1)).all()
        np.testing.assert_allclose(found.score[given == k], min(share, 1), rtol=1e-6)
