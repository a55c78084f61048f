"""A model in training: how a step moves its weights, and which of its copies is used."""

import pytest
import small_runs as small
import torch

from abstain.training.loop import step as module
from abstain.training.loop.batches import Batch
from abstain.training.loop.step import Layout, layout_for

SGD = {"optimizer": "sgd", "learning_rate": 0.1}


def move(learner, inputs):
    batch = Batch(torch.arange(len(inputs)), inputs, counts=True, total=len(inputs))
    learner.optimizer.zero_grad()
    learner.backward((learner.logits(batch) - 1).square().sum())
    learner.clip_gradients()
    learner.step()


def test_what_fills_a_batch_up_has_no_outputs():
    learner = small.loop_on_blobs().learner
    batch = Batch(torch.arange(3), torch.randn(4, 5), counts=True, total=3)
    assert torch.equal(learner.logits(batch), learner.plain_model(batch.inputs)[:3])


def test_a_step_is_no_longer_than_the_clip_allows():
    learner = small.loop_on_blobs(clip=0.01, **SGD).learner
    before = torch.nn.utils.parameters_to_vector(learner.model.parameters()).detach().clone()
    move(learner, 100 * torch.ones(4, 5))
    after = torch.nn.utils.parameters_to_vector(learner.model.parameters()).detach()
    # Nesterov's momentum of 0.9 makes the first step 1.9 times as long as plain descent.
    assert float((after - before).norm()) == pytest.approx(0.1 * 1.9 * 0.01, rel=1e-4)


def test_averages_are_used_and_the_weights_themselves_are_trained():
    learner = small.loop_on_blobs(average=3.0, **SGD).learner
    for _ in range(3):
        move(learner, torch.ones(4, 5))
    assert learner.current_model() is learner.evaluated_model()
    assert not torch.equal(learner.current_model().weight, learner.model.weight)
    plain = small.loop_on_blobs(**SGD).learner
    assert plain.current_model() is plain.plain_model


def test_a_restart_forgets_averages_and_moments_of_other_weights():
    learner = small.loop_on_blobs(average=3.0, **SGD).learner
    kept = {name: torch.full_like(x, 0.5) for name, x in learner.model.state_dict().items()}
    move(learner, torch.ones(4, 5))
    learner.restart(kept)
    assert not learner.optimizer.state
    for model in (learner.model, learner.current_model()):
        assert all((x == 0.5).all() for x in model.state_dict().values())


def test_a_layout_follows_from_device_and_size_alone(monkeypatch):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    monkeypatch.setattr(module, "computes_bf16", lambda _: True)
    assert layout_for("auto", device=cpu, batch=(512, 256)) == Layout()
    assert layout_for("auto", device=cpu, batch=(512, 1024)) == Layout(precision="bf16")
    assert layout_for("auto", device=cpu, batch=(128, 3, 64, 64)) == Layout(True, "bf16")
    # A GPU gains nothing where a step is small, but for a backbone that is trained too.
    assert layout_for("auto", device=gpu, batch=(128, 3, 32, 32)) == Layout()
    small = layout_for("auto", device=gpu, batch=(16, 3, 32, 32), finetune=True)
    assert small == Layout(True, "bf16")
    assert layout_for("auto", device=cpu, batch=(16, 3, 32, 32), finetune=True) == Layout(True)


def test_a_processor_without_bf16_does_not_imitate_it(monkeypatch):
    monkeypatch.setattr(module, "computes_bf16", lambda _: False)
    assert layout_for("auto", device=torch.device("cpu"), batch=(512, 4096)) == Layout()


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_precision_that_is_named_is_kept(precision):
    layout = layout_for(precision, device=torch.device("cpu"), batch=(512, 4096))
    assert layout == Layout(precision=precision)


def test_tensors_are_laid_out_as_documented():
    images = torch.zeros(2, 3, 8, 8)
    laid = Layout(channels_last=True)
    assert laid.lay(images).is_contiguous(memory_format=torch.channels_last)
    assert laid.lay(torch.zeros(2, 3)).is_contiguous()
    assert Layout().lay(images) is images
    with Layout(precision="bf16").autocast(torch.device("cpu")):
        assert torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == torch.bfloat16
    with Layout().autocast(torch.device("cpu")):
        assert torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == torch.float32
