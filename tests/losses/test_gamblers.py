"""The gambler's loss against cross-entropy, against slow loops, and at the edges of its dtypes.

Tests of gamblers.py, kernels.py and payoff.py; of combine.py through the loss.
"""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad, hessian, vmap
from torch.testing import assert_close

from abstain import AbstainError, GamblersLoss, gamblers_loss
from abstain.losses import log_payoff
from abstain.losses.kernels import bet_loss, plain_bet_loss

from reference import gamblers_loss_of_one_sample, payoff_by_rule

CLASSES = 4
PAYOFFS = {"fixed": 3.5, "infinite": math.inf, "euc": "euc", "mid": "mid", "exp": "exp"}


def random_logits(*shape, dtype=torch.float64, scale=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator, dtype=torch.float64) * scale).to(dtype)


def cross_entropy_on_all_outputs(logits, target, weight, **options):
    """Cross-entropy with the abstention output as one more class that never is the label.

    torch would smooth over it too; spreading over the m classes is written out as probabilities.
    """
    smoothing = options.pop("label_smoothing")
    dim = 0 if logits.ndim == 1 else 1
    if weight is not None:
        weight = F.pad(weight, (0, 1), value=7.0)  # no sample is labelled so: must not matter
    if target.is_floating_point():
        target = target * (1 - smoothing) + smoothing / CLASSES
        padding = torch.zeros_like(target.narrow(dim, 0, 1))
        return F.cross_entropy(
            logits, torch.cat([target, padding], dim), weight=weight, reduction=options["reduction"]
        )
    if not smoothing:
        return F.cross_entropy(logits, target, weight=weight, **options)
    ignored = target == options["ignore_index"]
    label = target.masked_fill(ignored, 0)
    hard = F.one_hot(label, CLASSES + 1).to(logits.dtype)
    even = torch.full_like(hard, 1 / CLASSES)
    even[..., -1] = 0
    soft = torch.lerp(hard, even, smoothing).movedim(-1, dim)
    losses = F.cross_entropy(logits, soft, weight=weight, reduction="none").masked_fill(ignored, 0)
    if options["reduction"] == "mean":
        counted = torch.ones_like(losses) if weight is None else weight[label]
        return losses.sum() / counted.masked_fill(ignored, 0).sum()
    return losses.sum() if options["reduction"] == "sum" else losses


SHAPES = [(), (6,), (0,), (3, 5), (2, 3, 2)]
GRID = list(
    itertools.product(
        SHAPES,
        ["index", "ignored", "all ignored", "probabilities"],
        [False, True],
        ["none", "mean", "sum"],
        [0.0, 0.1],
        [torch.float64, torch.float32, torch.bfloat16, torch.float16],
    )
)


@pytest.mark.parametrize(("shape", "kind", "weighted", "reduction", "smoothing", "dtype"), GRID)
def test_infinite_payoff_equals_cross_entropy(shape, kind, weighted, reduction, smoothing, dtype):
    samples, rest = shape[:1], shape[1:]
    logits = random_logits(*samples, CLASSES + 1, *rest, dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    target = torch.randint(0, CLASSES, shape, generator=generator)
    if kind == "ignored" and target.numel():
        target.view(-1)[0] = -100
    if kind == "all ignored":
        target = torch.full(shape, -100)
    if kind == "probabilities":
        target = random_logits(*samples, CLASSES, *rest, seed=2).softmax(len(samples)).to(dtype)
    weight = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=dtype) if weighted else None
    options = {"ignore_index": -100, "reduction": reduction, "label_smoothing": smoothing}
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = gamblers_loss(ours, target, math.inf, weight=weight, **options)
    # The reference runs in float64: torch's own half-precision sums are coarser than ours.
    exact_target = target.double() if target.is_floating_point() else target
    expected = cross_entropy_on_all_outputs(
        theirs.double(), exact_target, None if weight is None else weight.double(), **options
    )
    assert loss.dtype == dtype
    tolerance = {
        torch.float64: 1e-12,
        torch.float32: 1e-5,
        torch.float16: 4e-3,
        torch.bfloat16: 3e-2,
    }
    close = {"rtol": tolerance[dtype], "atol": tolerance[dtype], "equal_nan": True}
    assert_close(loss.double(), expected, **close)
    loss.sum().backward()
    expected.sum().backward()
    if not expected.isnan().any():
        assert_close(ours.grad, theirs.grad, **close)
    module = GamblersLoss(math.inf, weight=weight, **options)
    assert_close(module(logits, target), loss.detach(), equal_nan=True)


def test_the_empty_mean_is_nan_as_in_torch():
    logits, target = torch.zeros(0, 5), torch.zeros(0, dtype=torch.long)
    assert F.cross_entropy(logits, target).isnan()
    assert gamblers_loss(logits, target).isnan()
    assert gamblers_loss(logits, target, reduction="sum") == 0


@pytest.mark.parametrize("payoff", PAYOFFS.values(), ids=PAYOFFS)
@pytest.mark.parametrize("scale", [0.3, 3.0, 60.0])
def test_equals_the_slow_loop(payoff, scale):
    logits = random_logits(40, CLASSES + 1, scale=scale)
    logits[:10, -1] += 80  # stakes far below the square root of the guard
    target = torch.arange(40) % CLASSES
    expected = [
        gamblers_loss_of_one_sample(
            row, label, payoff if isinstance(payoff, float) else payoff_by_rule(payoff, row, 1e-8)
        )
        for row, label in zip(logits.tolist(), target.tolist(), strict=True)
    ]
    losses = gamblers_loss(logits, target, payoff, reduction="none")
    assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rule", ["euc", "mid", "exp"])
def test_payoff_rules_equal_the_slow_loop(rule):
    logits = random_logits(30, 6, scale=4.0)
    expected = [math.log(payoff_by_rule(rule, row, 1e-6)) for row in logits.tolist()]
    assert_close(log_payoff(rule, logits, 1e-6), torch.tensor(expected, dtype=torch.float64))


def test_mid_and_exp_are_clamped_to_the_number_of_classes():
    hesitant = torch.tensor([[0.0] * 10 + [4.5]])  # f_0 ≈ 0.9 and a uniform belief: 100 unclamped
    for rule in ("mid", "exp"):
        assert_close(log_payoff(rule, hesitant).exp(), torch.tensor([10.0]))
    assert log_payoff("euc", hesitant, 1e-8).exp().item() == pytest.approx(10, rel=1e-4)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=3, max_size=9))
def test_rules_keep_their_order_and_bounds(row):
    logits = torch.tensor([row], dtype=torch.float64)
    classes = len(row) - 1
    exact_euc = log_payoff("euc", logits, 0.0).exp().item()
    mid, exp = (log_payoff(rule, logits).exp().item() for rule in ("mid", "exp"))
    assert 1 - 1e-9 <= exact_euc <= classes + 1e-9
    assert exact_euc <= mid + 1e-9
    assert mid <= exp + 1e-9
    assert log_payoff("euc", logits, 1e-3).exp().item() >= exact_euc - 1e-9


def test_payoff_is_a_constant_for_the_gradient():
    logits = random_logits(5, CLASSES + 1).requires_grad_()
    target = torch.arange(5) % CLASSES
    by_rule = torch.autograd.grad(gamblers_loss(logits, target, "euc"), logits)[0]
    payoffs = log_payoff("euc", logits).exp()
    payoffs.requires_grad_()
    by_tensor = torch.autograd.grad(
        gamblers_loss(logits, target, payoffs, check=False), [logits, payoffs], allow_unused=True
    )
    assert_close(by_rule, by_tensor[0])
    assert by_tensor[1] is None


@pytest.mark.parametrize("payoff", [2.0, math.inf, "tensor"])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_gradcheck_first_and_second_order(payoff, reduction):
    logits = random_logits(3, CLASSES + 1).requires_grad_()
    target = torch.arange(3) % CLASSES
    if payoff == "tensor":
        payoff = torch.linspace(1.0, CLASSES, 3, dtype=torch.float64)
    for options in ({}, {"label_smoothing": 0.2}, {"weight": torch.rand(CLASSES).double()}):

        def loss(z, options=options):
            return gamblers_loss(z, target, payoff, reduction=reduction, **options)

        assert torch.autograd.gradcheck(loss, logits)
        assert torch.autograd.gradgradcheck(loss, logits)


def test_closed_form_equals_autograd_for_every_payoff():
    target = torch.arange(12) % CLASSES
    for scale, lift in itertools.product([0.5, 5.0, 200.0], [-50.0, 0.0, 50.0]):
        logits = random_logits(12, CLASSES + 1, scale=scale)
        logits[:, -1] += lift
        for log_of_payoff, guard in [(1.0, None), (math.inf, None), (0.0, 1e-8), (0.0, 0.0)]:
            fused, plain = (logits.clone().requires_grad_() for _ in range(2))
            ours = bet_loss(fused, target, log_of_payoff, guard)
            theirs = plain_bet_loss(plain, target, log_of_payoff, guard)
            assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
            ours.sum().backward()
            theirs.sum().backward()
            assert_close(fused.grad, plain.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("payoff", PAYOFFS.values(), ids=PAYOFFS)
def test_vmap_over_stacked_models_equals_a_loop(payoff):
    logits = random_logits(3, 6, CLASSES + 1)
    target = torch.arange(18).view(3, 6) % CLASSES

    def loss(z, y):
        return gamblers_loss(z, y, payoff)

    stacked = vmap(loss)(logits, target)
    slopes = vmap(grad(loss))(logits, target)
    for z, y, value, slope in zip(logits, target, stacked, slopes, strict=True):
        z = z.clone().requires_grad_()
        alone = loss(z, y)
        alone.backward()
        assert_close(value, alone.detach())
        assert_close(slope, z.grad)


def test_hessian_through_torch_func():
    logits, target = random_logits(CLASSES + 1), torch.tensor(2)
    ours = hessian(lambda z: gamblers_loss(z, target, math.inf))(logits)
    assert_close(ours, hessian(lambda z: F.cross_entropy(z, target))(logits))


@pytest.mark.parametrize("payoff", ["euc", 3.5])
def test_torch_compile(payoff):
    loss = GamblersLoss(payoff)
    logits = random_logits(8, CLASSES + 1, dtype=torch.float32).requires_grad_()
    target = torch.arange(8) % CLASSES
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    compiled(logits, target).backward()
    other = logits.detach().clone().requires_grad_()
    loss(other, target).backward()
    assert_close(logits.grad, other.grad)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("way", ["compile", "vmap", "autocast"])
def test_infinite_payoff_equals_cross_entropy_in_every_way_of_running(
    way, reduction, weighted, smoothing
):
    target = torch.tensor([[0, 1, 2], [3, -100, 1]])
    weight = torch.tensor([0.5, 1.0, 2.0, 3.0]) if weighted else None
    options = {"ignore_index": -100, "reduction": reduction, "label_smoothing": smoothing}
    dtype = torch.bfloat16 if way == "autocast" else torch.float32
    ours = random_logits(2, 3, CLASSES + 1, dtype=dtype).requires_grad_()
    theirs = ours.detach().double().requires_grad_()

    def loss(z, y):
        return gamblers_loss(z, y, math.inf, weight=weight, **options)

    if way == "compile":
        torch.compiler.reset()  # it gives up on a function after eight variants of its settings
        loss = torch.compile(loss, fullgraph=True, backend="aot_eager")
    if way == "vmap":
        got = vmap(loss)(ours, target)
    else:
        with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
            got = torch.stack([loss(z, y) for z, y in zip(ours, target, strict=True)])
    exact = None if weight is None else weight.double()
    expected = torch.stack(
        [
            cross_entropy_on_all_outputs(z, y, exact, **options)
            for z, y in zip(theirs, target, strict=True)
        ]
    )
    assert got.dtype == torch.float32  # under autocast as well
    assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)
    got.sum().backward()
    expected.sum().backward()
    tolerance = 1e-2 if way == "autocast" else 1e-5
    assert_close(ours.grad.double(), theirs.grad, rtol=tolerance, atol=tolerance)


def test_autocast_keeps_the_loss_in_float32():
    linear = torch.nn.Linear(3, CLASSES + 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = linear(torch.ones(2, 3))
        assert logits.dtype == torch.bfloat16
        loss = gamblers_loss(logits, torch.tensor([0, 1]))
        assert loss.dtype == F.cross_entropy(logits, torch.tensor([0, 1])).dtype == torch.float32
    loss.backward()
    assert linear.weight.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("payoff", PAYOFFS.values(), ids=PAYOFFS)
def test_huge_logits_give_finite_losses_and_gradients(dtype, payoff):
    rows = list(itertools.product([-1e4, 0.0, 1e4], repeat=CLASSES + 1))
    logits = torch.tensor(rows, dtype=dtype).requires_grad_()
    for label in range(CLASSES):
        target = torch.full((len(rows),), label)
        for smoothing in (0.0, 0.1):
            logits.grad = None
            loss = gamblers_loss(logits, target, payoff, label_smoothing=smoothing)
            loss.backward()
            assert loss.isfinite()
            assert logits.grad.isfinite().all()


def test_confident_points_keep_their_gradient():
    logits = torch.tensor([[0.0, 200.0, -300.0]], requires_grad=True)
    gamblers_loss(logits, torch.tensor([0]), payoff=1.5).backward()
    assert_close(logits.grad, torch.tensor([[-1.0, 1.0, 0.0]]))
    f = logits.detach().clone().requires_grad_()
    probabilities = f.softmax(-1)
    (-(probabilities[:, 0] + probabilities[:, -1] / 1.5).log()).mean().backward()
    assert not f.grad.isfinite().all()  # what softmax-then-log does with the same point


def test_any_leading_shape_of_payoffs():
    logits = random_logits(5, CLASSES + 1, 3)
    target = torch.arange(15).view(5, 3) % CLASSES
    payoffs = torch.linspace(1.1, 4.0, 3, dtype=torch.float64)
    losses = gamblers_loss(logits, target, payoffs, reduction="none")
    for column, payoff in enumerate(payoffs.tolist()):
        one = gamblers_loss(logits[..., column], target[:, column], payoff, reduction="none")
        assert_close(losses[:, column], one)


def test_integer_targets_of_any_width():
    logits = random_logits(4, CLASSES + 1)
    expected = gamblers_loss(logits, torch.arange(4))
    for dtype in (torch.int32, torch.uint8, torch.int16):
        assert gamblers_loss(logits, torch.arange(4).to(dtype)) == expected


OK = torch.zeros(2, 4)
ZEROS = torch.zeros(2, dtype=torch.long)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GamblersLoss(0.5), "payoff must be greater than 1, got 0.5"),
        (lambda: GamblersLoss(1.0), "payoff must be greater than 1, got 1.0"),
        (lambda: GamblersLoss(math.nan), "payoff must be greater than 1, got nan"),
        (
            lambda: gamblers_loss(OK, ZEROS, 9.99),
            r"payoff must lie in \(1, 3\] for 3 classes.*9.99",
        ),
        (lambda: GamblersLoss("ecu"), "payoff must be .*'euc'.* got 'ecu'"),
        (lambda: GamblersLoss(guard=0.0), "guard must be .* greater than 0, got 0.0"),
        (lambda: GamblersLoss(guard=-1.0), "guard must be .* got -1.0"),
        (
            lambda: gamblers_loss(OK, ZEROS, torch.tensor([0.5, 2])),
            "payoff must lie .* from 0.5 to 2",
        ),
        (lambda: gamblers_loss(OK, ZEROS, torch.tensor([2.0, math.nan])), "payoff must lie .* nan"),
        (lambda: gamblers_loss(OK, ZEROS, torch.full((3,), 2.0)), "payoff must broadcast"),
        (
            lambda: gamblers_loss(OK, torch.tensor([0, 3])),
            r"\[0, 3\).*got 3; did the model get its",
        ),
        (lambda: gamblers_loss(OK, torch.tensor([-1, 0])), r"\[0, 3\).*got -1"),
        (lambda: gamblers_loss(OK, OK), r"without an abstention output, \(2, 3\).*got \(2, 4\)"),
        (lambda: gamblers_loss(torch.zeros(2, 2), ZEROS), "at least 2 classes"),
        (lambda: gamblers_loss(OK, torch.zeros(3, dtype=torch.long)), r"shape \(2,\).*got \(3,\)"),
        (
            lambda: gamblers_loss(OK, ZEROS, weight=torch.ones(4)),
            r"weight must .*\(3,\).*got \(4,\)",
        ),
        (lambda: gamblers_loss(OK.long(), ZEROS), "logits must be floating point"),
        (lambda: gamblers_loss(OK / 0, ZEROS, check=True), "logits must be numbers, got NaN"),
        (lambda: GamblersLoss(reduction="avg"), "reduction must be .* got 'avg'"),
        (lambda: GamblersLoss(label_smoothing=1.5), "label_smoothing must lie in .* got 1.5"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(AbstainError, match=message):
        call()


def test_module_moves_its_tensors_and_shows_its_settings():
    loss = GamblersLoss(torch.tensor([2.0, 3.0]), weight=torch.ones(CLASSES)).double()
    assert loss.payoff.dtype == loss.options.weight.dtype == torch.float64
    assert "payoff=euc, guard=1e-08" in repr(GamblersLoss())
