"""The effect of the guard on a small real task: digits with 40% of the labels flipped.

Tests of payoff.py, by what it is for.
"""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from abstain import noise
from abstain.losses import gamblers_loss, log_payoff, stake

EPOCHS = 15


def noisy_digits():
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    inputs, true = (
        torch.tensor(images, dtype=torch.float32)[order] / 16,
        torch.tensor(labels)[order],
    )
    given = noise.corrupt(true.numpy(), noise.symmetric(10, 0.4), np.random.default_rng(0))
    return inputs, torch.from_numpy(given), true


def train(guard):
    """(test accuracy, mean stake) after training by the euc rule from the first step."""
    inputs, given, true = noisy_digits()
    train_part, test_part = slice(0, 1300), slice(1300, None)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(),
            torch.nn.Linear(256, 256), torch.nn.ReLU(),
            torch.nn.Linear(256, 11),
        )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    order = torch.Generator().manual_seed(1)
    for _ in range(EPOCHS):
        for batch in torch.randperm(1300, generator=order).split(32):
            logits = network(inputs[train_part][batch])
            # The loss refuses a guard of 0: the exact rule goes in as a tensor.
            payoff = log_payoff("euc", logits, guard).exp().clamp(1, 10) if guard == 0 else "euc"
            loss = gamblers_loss(logits, given[train_part][batch], payoff, guard=guard or 1e-8)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        correct = network(inputs[test_part])[:, :-1].argmax(-1) == true[test_part]
        return correct.float().mean().item(), stake(network(inputs[train_part])).mean().item()


def test_exact_euc_rule_collapses_without_guard():
    accuracy, mean_stake = train(guard=0.0)
    assert mean_stake < 1e-6
    assert accuracy < 0.5


def test_guarded_euc_rule_keeps_a_stake_and_learns():
    accuracy, mean_stake = train(guard=1e-8)
    assert mean_stake > 1e-5
    assert accuracy > 0.65


def test_expected_log_return_is_negative_for_any_stake_under_the_exact_rule():
    # Why it collapses: with λ = 1/Σq² a bet that follows the belief has an expected gain of 1.
    belief = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    payoff = 1 / belief.square().sum()
    assert float(payoff * (belief * belief).sum()) == pytest.approx(1)
    for staked in (0.01, 0.3, 0.9):
        wealth = payoff * staked * belief + (1 - staked)
        assert (belief * wealth.log()).sum() < 0
