"""Tests of the end of a training, from made-up figures, and of the model that is kept."""

import math

import pytest
import small_runs as small
import torch


def outcome_of(controller, epoch, **row):
    return controller.after_epoch(epoch, row, None, lambda: torch.zeros(3))


def test_the_last_epoch_ends_a_training_that_nothing_stopped():
    controller = small.loop_on_blobs(epochs=2).controller
    assert outcome_of(controller, 1) == ""
    assert outcome_of(controller, 2) == "all 2 epochs are done"
    assert controller.final_epoch(2) == 2


def test_the_validation_stop_goes_back_to_its_best_epoch():
    loop = small.loop_on_blobs("ves", epochs=9, patience=2)
    controller, weight = loop.controller, loop.learner.plain_model.weight
    outcomes = []
    for epoch, accuracy in enumerate([0.5, 0.8, 0.7, 0.6], 1):
        torch.nn.init.constant_(weight, epoch)
        outcomes.append(outcome_of(controller, epoch, validation_accuracy=accuracy))
    assert outcomes[:3] == [""] * 3
    assert "epoch 2" in outcomes[3]
    assert controller.final_epoch(4) == 2
    assert (controller.final_model().weight == 2).all()


@pytest.mark.parametrize(("epoch", "ends"), [(0, False), (1, True)])
def test_the_analytical_stop_passes_over_the_warm_up(epoch, ends):
    controller = small.loop_on_blobs("aes", rate=0.2, payoff=1.9, epochs=9, warm_up=1).controller
    falling = [math.log(1.9) * 0.97**k for k in range(400)]
    assert any(controller.after_step(loss, 64, epoch) for loss in falling) is ends
