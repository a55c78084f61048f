"""Losses and hits of evaluated samples, against torch on all of them at once."""

import pytest
import small_runs as small
import torch
from torch.nn.functional import cross_entropy

from abstain.training.loop.evaluation import evaluate, figures_on_test, held_out_figures

DROPPING = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Dropout(0.5))


def expected(loop):
    rows, given = loop.task.hold_out.rows, loop.task.given
    with torch.no_grad():
        logits = loop.learner.plain_model.eval()(loop.task.training.inputs[rows])
    losses = cross_entropy(logits.double(), given[rows], reduction="none")
    return torch.stack([losses, (logits[:, :-1].argmax(-1) == given[rows]).double()])


def test_each_sample_is_judged_in_eval_mode_and_training_goes_on():
    loop = small.loop_on_blobs("ves", model=DROPPING, count=60, hold_out=0.5)
    visited = []
    got = evaluate(
        loop.learner, loop.task.hold_out, loop.task.given,
        lambda index, logits, given: visited.append((index, logits.shape, given)),
    )  # fmt: skip
    assert loop.learner.model.training
    torch.testing.assert_close(got, expected(loop))
    assert torch.equal(torch.cat([index for index, _, _ in visited]), loop.task.hold_out.rows)


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_losses_of_held_out_samples_count_by_their_weights(scale):
    weights = scale * torch.arange(60.0)
    loop = small.loop_on_blobs("ves", count=60, hold_out=0.5, weights=weights)
    own = weights[loop.task.hold_out.rows]
    losses, hits = expected(loop)
    got = held_out_figures(loop.learner, loop.task)
    torch.testing.assert_close(got[0], losses * own / own.mean(), check_dtype=False)
    torch.testing.assert_close(got[1], hits)


def test_without_test_labels_there_is_no_accuracy():
    loop = small.loop_on_blobs()
    assert figures_on_test(loop.learner, loop.task) == {}
