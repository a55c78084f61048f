"""A model in training: how a step moves its weights, and which of its copies is used."""

import pytest
import small_runs as small
import torch

from abstain.training.loop.batches import Batch

SGD = {"optimizer": "sgd", "learning_rate": 0.1}


def step(learner, inputs):
    batch = Batch(torch.arange(len(inputs)), inputs, counts=True, total=len(inputs))
    learner.step((learner.logits(batch) - 1).square().sum())


def test_what_fills_a_batch_up_has_no_outputs():
    learner = small.loop_on_blobs().learner
    batch = Batch(torch.arange(3), torch.randn(4, 5), counts=True, total=3)
    assert torch.equal(learner.logits(batch), learner.plain_model(batch.inputs)[:3])


def test_a_step_is_no_longer_than_the_clip_allows():
    learner = small.loop_on_blobs(clip=0.01, **SGD).learner
    before = torch.nn.utils.parameters_to_vector(learner.model.parameters()).detach().clone()
    step(learner, 100 * torch.ones(4, 5))
    after = torch.nn.utils.parameters_to_vector(learner.model.parameters()).detach()
    # Nesterov's momentum of 0.9 makes the first step 1.9 times as long as plain descent.
    assert float((after - before).norm()) == pytest.approx(0.1 * 1.9 * 0.01, rel=1e-4)


def test_averages_are_used_and_the_weights_themselves_are_trained():
    learner = small.loop_on_blobs(average=3.0, **SGD).learner
    for _ in range(3):
        step(learner, torch.ones(4, 5))
    assert learner.current_model() is learner.evaluated_model()
    assert not torch.equal(learner.current_model().weight, learner.model.weight)
    plain = small.loop_on_blobs(**SGD).learner
    assert plain.current_model() is plain.plain_model


def test_a_restart_forgets_averages_and_moments_of_other_weights():
    learner = small.loop_on_blobs(average=3.0, **SGD).learner
    kept = {name: torch.full_like(x, 0.5) for name, x in learner.model.state_dict().items()}
    step(learner, torch.ones(4, 5))
    learner.restart(kept)
    assert not learner.optimizer.state
    for model in (learner.model, learner.current_model()):
        assert all((x == 0.5).all() for x in model.state_dict().values())
