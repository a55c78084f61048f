"""A warm-up ends where the held-out loss turns, even where it never was low."""

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from abstain.training.objective.warm_up import WarmUp
from abstain.training.recipe import plan_of
from abstain.training.train import train


def test_memorised_labels_end_a_warm_up_that_never_beat_the_frequencies():
    # Two classes, 40% wrong, 85 held-out labels: all that is to be gained is 0.02 of a loss of
    # 0.66, and chance takes more. Yet the first epochs get most of the test set right.
    x, y = load_breast_cancer(return_X_y=True)
    parts = train_test_split(x.astype(np.float32), y.astype(str), random_state=101, stratify=y)
    x_train, x_test, y_train, y_test = parts
    seeds = dict.fromkeys(("seed_noise", "seed_init", "seed_order"), 101)
    recipe = plan_of("auto", flip=0.4, **seeds)
    trained = train((x_train, y_train), recipe, test=(x_test, y_test))
    shares = np.bincount(trained.data.given) / len(trained.data)
    losses = [row["validation_loss"] for row in trained.history.epochs if "validation_loss" in row]
    assert min(losses) > -shares @ np.log(shares)
    assert "cross-entropy until epoch" in trained.outcome
    assert trained.test_accuracy > 0.7  # cross-entropy throughout: 0.54


def test_a_model_that_is_slow_to_begin_is_given_time():
    """Late epochs end a warm-up that still learns, but not one that has yet to begin."""

    def epochs_until_the_end(losses):
        warm_up = WarmUp(epochs=10, untaught=0.693, held_out=2)
        for epoch, loss in enumerate(losses, start=1):
            warm_up.update(torch.tensor([loss, loss]), accuracy=0.5)
            if warm_up.ended:
                assert "to leave time for the rest" in warm_up.reason
                return epoch
        return None

    assert epochs_until_the_end([0.69, 0.66, 0.64, 0.62, 0.60, 0.58, 0.57, 0.56]) == 7
    slow = [0.6930, 0.6928, 0.6925, 0.6920, 0.6915, 0.6910, 0.6890, 0.66, 0.62]
    assert epochs_until_the_end(slow) == 8
    assert epochs_until_the_end(slow[:7]) is None


def test_a_fall_by_chance_is_no_beginning():
    """Patience ends a warm-up whose loss has turned, but not one that meets what a guess meets."""

    def ends(accuracy, held_out):
        warm_up = WarmUp(epochs=10, untaught=0.693, held_out=held_out)
        for loss in (0.692, 0.696, 0.693, 0.693):
            warm_up.update(torch.full((held_out,), loss), accuracy)
        return warm_up.ended

    assert not ends(accuracy=0.51, held_out=500)
    assert not ends(accuracy=0.54, held_out=500)  # 1.8 standard errors
    assert ends(accuracy=0.56, held_out=500)
    assert ends(accuracy=0.51, held_out=20_000)
