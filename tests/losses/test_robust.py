"""The small-stake loss and generalised cross-entropy, against loops and their limits."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from abstain import AbstainError, GamblersLoss, GeneralizedCrossEntropy, SmallStakeLoss
from abstain.losses import gamblers_loss, generalized_cross_entropy, small_stake_loss

CLASSES = 5


def random_logits(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).mul(3).to(dtype)


def small_stake_loop(row, label):
    belief = [p / sum(row) for p in row]
    return (1 - belief[label]) / sum(p * p for p in belief)


def generalized_loop(row, label, q, k):
    p = row[label] / sum(row)
    return (1 - max(p, k or 0) ** q) / q


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("truncate", [None, 0.5])
def test_equal_the_slow_loop(weighted, smoothing, truncate):
    logits, target = random_logits(20, CLASSES), torch.arange(20) % CLASSES
    target[3] = -100
    weight = torch.linspace(0.5, 2, CLASSES, dtype=torch.float64) if weighted else None
    factors = weight.tolist() if weighted else [1.0] * CLASSES
    losses = {
        small_stake_loop: SmallStakeLoss(weight=weight, label_smoothing=smoothing),
        lambda row, label: generalized_loop(row, label, 0.7, truncate): GeneralizedCrossEntropy(
            0.7, truncate, weight=weight, label_smoothing=smoothing
        ),
    }
    for loop, loss in losses.items():
        total = count = 0.0
        for row, label in zip(logits.exp().tolist(), target.tolist(), strict=True):
            if label == -100:
                continue
            spread = sum(factors[j] * loop(row, j) for j in range(CLASSES)) / CLASSES
            total += (1 - smoothing) * factors[label] * loop(row, label) + smoothing * spread
            count += factors[label]
        assert_close(loss(logits, target), torch.tensor(total / count, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(), (4,), (0,), (2, 3)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_probabilities_that_are_certain_equal_indices(shape, reduction):
    samples, rest = shape[:1], shape[1:]
    logits = random_logits(*samples, CLASSES, *rest)
    target = torch.randint(0, CLASSES, shape, generator=torch.Generator().manual_seed(1))
    certain = F.one_hot(target, CLASSES).double().movedim(-1, len(samples))
    for loss in (SmallStakeLoss(reduction=reduction), GeneralizedCrossEntropy(reduction=reduction)):
        assert_close(loss(logits, target), loss(logits, certain), equal_nan=True)


def test_generalized_cross_entropy_lies_between_its_limits():
    logits, target = random_logits(50, CLASSES), torch.arange(50) % CLASSES
    near_cross_entropy = generalized_cross_entropy(logits, target, q=1e-7)
    assert_close(near_cross_entropy, F.cross_entropy(logits, target), rtol=1e-5, atol=1e-5)
    absolute_error = 1 - logits.softmax(-1)[torch.arange(50), target]
    assert_close(generalized_cross_entropy(logits, target, q=1.0), absolute_error.mean())


def test_truncation_stops_the_pull_of_unlikely_labels():
    logits = torch.tensor([[4.0, 0.0], [0.0, 4.0]], requires_grad=True)
    generalized_cross_entropy(logits, torch.tensor([0, 0]), truncate=0.5).backward()
    assert (logits.grad[0] != 0).all()
    assert (logits.grad[1] == 0).all()


def test_small_stake_is_the_limit_of_the_guarded_euc_loss():
    # At a fixed stake s the gradient of the belief, divided by s, tends to that of λ (1 − q_y).
    classes = random_logits(6, CLASSES)
    target = torch.arange(6) % CLASSES
    reference = classes.clone().requires_grad_()
    small_stake_loss(reference, target, reduction="sum").backward()
    errors = []
    for stake in (1e-2, 1e-4, 1e-6):
        free = classes.clone().requires_grad_()
        bets = free.log_softmax(-1) + math.log(stake / (1 - stake))
        logits = torch.cat([bets, torch.zeros(6, 1, dtype=torch.float64)], -1)
        gamblers_loss(logits, target, "euc", guard=1e-30, reduction="sum").backward()
        errors.append((free.grad / stake - reference.grad).abs().max().item())
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-5


def test_small_stake_pulls_like_cross_entropy_at_a_uniform_belief():
    ours, theirs = (torch.zeros(1, CLASSES, requires_grad=True) for _ in range(2))
    small_stake_loss(ours, torch.tensor([2])).backward()
    F.cross_entropy(theirs, torch.tensor([2])).backward()
    assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("loss", [SmallStakeLoss(), GeneralizedCrossEntropy(truncate=0.5)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_huge_logits_give_finite_losses_and_gradients(loss, dtype):
    rows = list(itertools.product([-1e4, 0.0, 1e4], repeat=CLASSES))
    logits = torch.tensor(rows, dtype=dtype).requires_grad_()
    value = loss(logits, torch.zeros(len(rows), dtype=torch.long))
    value.backward()
    assert value.dtype == dtype
    assert value.isfinite()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("loss", [SmallStakeLoss(), GeneralizedCrossEntropy()])
def test_gradcheck_vmap_and_compile(loss):
    logits, target = random_logits(2, 4, CLASSES).requires_grad_(), torch.arange(8).view(2, 4) % 5
    if isinstance(loss, GeneralizedCrossEntropy):  # λ of the other is held constant
        assert torch.autograd.gradcheck(
            lambda z: loss(z, target[0]), logits[0].detach().requires_grad_()
        )
    stacked = torch.func.vmap(loss)(logits, target)
    assert_close(stacked, torch.stack([loss(z, y) for z, y in zip(logits, target, strict=True)]))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    assert_close(compiled(logits[0], target[0]), stacked[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GeneralizedCrossEntropy(q=0.0), r"q must lie in \(0, 1\], got 0.0"),
        (lambda: GeneralizedCrossEntropy(truncate=1.0), r"truncate must lie in \(0, 1\), got 1.0"),
        (lambda: SmallStakeLoss()(torch.zeros(1, 3), torch.tensor([3])), r"\[0, 3\).*got 3"),
        (lambda: SmallStakeLoss()(torch.zeros(1, 1), torch.tensor([0])), "at least 2 classes"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(AbstainError, match=message):
        call()


def test_losses_can_be_pickled_with_their_settings(tmp_path):
    for loss in (GamblersLoss(3.0), SmallStakeLoss(), GeneralizedCrossEntropy(0.5, 0.2)):
        torch.save(loss, tmp_path / "loss.pt")
        again = torch.load(tmp_path / "loss.pt", weights_only=False)
        assert repr(again) == repr(loss)
