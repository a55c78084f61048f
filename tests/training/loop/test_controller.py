"""What ends a training, from made-up figures, and which model is kept."""

import math

import pytest
import small_runs as small
import torch


def judged(judge, epoch, **row):
    return judge.after_epoch(epoch, row, None, lambda: torch.zeros(3))


def test_the_last_epoch_ends_a_training_that_nothing_stopped():
    judge = small.loop_on_blobs(epochs=2).judge
    assert judged(judge, 1) == ""
    assert judged(judge, 2) == "all 2 epochs are done"
    assert judge.final_epoch(2) == 2


def test_the_validation_stop_goes_back_to_its_best_epoch():
    loop = small.loop_on_blobs("ves", epochs=9, patience=2)
    judge, weight = loop.judge, loop.learner.plain_model.weight
    outcomes = []
    for epoch, accuracy in enumerate([0.5, 0.8, 0.7, 0.6], 1):
        torch.nn.init.constant_(weight, epoch)
        outcomes.append(judged(judge, epoch, validation_accuracy=accuracy))
    assert outcomes[:3] == [""] * 3
    assert "epoch 2" in outcomes[3]
    assert judge.final_epoch(4) == 2
    assert (judge.final_model().weight == 2).all()


@pytest.mark.parametrize(("epoch", "ends"), [(0, False), (1, True)])
def test_the_analytical_stop_passes_over_the_warm_up(epoch, ends):
    judge = small.loop_on_blobs("aes", rate=0.2, payoff=1.9, epochs=9, warm_up=1).judge
    falling = [math.log(1.9) * 0.97**k for k in range(400)]
    assert any(judge.after_step(loss, 64, epoch) for loss in falling) is ends
