"""The memories of samples, against a plain loop, and agreed on by processes."""

import pytest
import torch

from abstain.training.objective.losses import Trust

CLASSES, SAMPLES = 3, 6


def visits(seed=0):
    rng = torch.Generator().manual_seed(seed)
    given = torch.randint(0, CLASSES, (SAMPLES,), generator=rng)
    return given, 3 * torch.randn(4, SAMPLES, CLASSES, dtype=torch.float64, generator=rng)


def new():
    return Trust(SAMPLES, CLASSES, dtype=torch.float64)


def test_a_memory_is_that_of_the_beliefs_in_the_label_and_in_the_likeliest():
    given, logits = visits()
    trust = new()
    label, likeliest = [1 / CLASSES] * SAMPLES, [1 / CLASSES] * SAMPLES
    for visit in logits:
        trust.update(torch.arange(SAMPLES), visit, given)
        for i, row in enumerate(visit):
            beliefs = (row.exp() / row.exp().sum()).tolist()
            label[i] = 0.7 * label[i] + 0.3 * beliefs[given[i]]
            likeliest[i] = 0.7 * likeliest[i] + 0.3 * max(beliefs)
    expected = [min(1.0, a / b) for a, b in zip(label, likeliest, strict=True)]
    assert trust.of(torch.arange(SAMPLES)).tolist() == pytest.approx(expected)


def test_two_processes_agree_on_what_one_would_remember():
    given, logits = visits()
    alone, halves = new(), (new(), new())
    for visit in logits[:2]:
        alone.update(torch.arange(5), visit[:5], given[:5])  # the last sample is never visited
        for rows, half in zip((torch.arange(3), torch.arange(3, 5)), halves, strict=True):
            half.update(rows, visit[rows], given[rows])
        states = [vars(half) for half in halves]
        sums = [
            sum(state["_visited"].double() for state in states),
            sum(state["_memory"] * state["_visited"].unsqueeze(-1) for state in states),
        ]
        for half in halves:
            added = iter(sums)
            half.agree(lambda _own, added=added: next(added))
    for half in halves:
        torch.testing.assert_close(half.state_dict(), alone.state_dict())
