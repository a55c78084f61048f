"""Stopping: the rules on made-up trajectories, on a real one, and across a restart."""

import json
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from abstain import noise, theory
from abstain.errors import AbstainError
from abstain.training.objective.stopping import AnalyticalStop, ValidationStop


def stop_at(stop, losses):
    """The number of updates after which it stops, or None."""
    return next((k for k, loss in enumerate(losses, 1) if stop.update(loss)), None)


def hard_stop(**options):
    """The hardest of the paper's cells: 85% wrong, plateau 0.012 below knowing nothing."""
    return AnalyticalStop(0.85, payoff=9.99, num_classes=10, **options)


def slow_averages(losses, samples, window):
    """After each loss: the weighted mean and its standard error, each from the whole history."""
    decay = 1 - 1 / window
    for k in range(1, len(losses) + 1):
        weights = samples[:k] * decay ** np.arange(k)[::-1]
        steps = np.diff(losses[:k], prepend=losses[0])
        variance = weights @ steps**2 / weights.sum() / 2
        error = math.sqrt(variance * (weights**2).sum()) / weights.sum()
        yield weights @ losses[:k] / weights.sum(), error


# --- AnalyticalStop: where it stops ---


@pytest.mark.parametrize(
    ("stop", "plateau"),
    [
        (AnalyticalStop(0.2, 1.95, 2), 0.4901),
        (AnalyticalStop(0.3, 1.95, 2), 0.5955),
        (AnalyticalStop(0.5, 9.99, 10), math.log(2) + 0.5 * math.log(8.99)),
        # not the paper's 0.940: above payoff 2 the network bets on both classes of a pair
        (AnalyticalStop(0.2, 9.99, 10, "pairflip"), 0.5004),
        (AnalyticalStop(0.2, 9.99, 10, noise.KINDS[1]), float(theory.plateau(0.82, 9.99, 10))),
        (AnalyticalStop(None, 9.99, 10, noise.symmetric(10, 0.5)), 1.7912),
        (AnalyticalStop(None, 1.95, 2, [[1, 0], [0.3, 0.7]]), 0.5955 / 2),
        (AnalyticalStop(None, 1.95, 2, [[1, 0], [0.3, 0.7]], priors=[0.8, 0.2]), 0.5955 / 5),
        # plain cross-entropy stops at the entropy of the labels
        (AnalyticalStop(0.5, math.inf, 10), math.log(2) + 0.5 * math.log(9)),
    ],
)
def test_plateau(stop, plateau):
    assert stop.plateau == pytest.approx(plateau, abs=1e-4)


@given(st.floats(0, 0.95), st.integers(2, 50), st.floats(0.01, 0.99))
def test_knowing_nothing_costs_more_than_the_plateau_and_less_than_the_start(rate, m, where):
    assume(1 - rate > 1.01 / m)
    low, high = theory.stoppable_payoffs(1 - rate, m)
    payoff = float(low + where * (high - low))
    stop = AnalyticalStop(rate, payoff, m)
    assert stop.plateau < stop.floor <= theory.untrained_loss(payoff, m)
    assert stop.floor == pytest.approx(math.log(payoff))


def test_clean_labels_are_possible_whatever_shares_sum_to_in_floating_point():
    for m in range(2, 200):
        assert AnalyticalStop(0.0, m - 0.1, m).plateau == pytest.approx(0)


def test_floor_of_unequal_classes_is_what_betting_on_the_largest_class_earns():
    equal, unequal = hard_stop(), hard_stop(priors=[0.91] + [0.01] * 9)
    assert unequal.plateau == pytest.approx(equal.plateau)
    assert unequal.plateau < unequal.floor < equal.floor - 0.005


# --- AnalyticalStop: made-up trajectories ---


@pytest.mark.parametrize("level", ["floor", "untrained"])
@pytest.mark.parametrize("spread", [0.015, 0.1, 0.4])  # of the mean of 128, of 8, of 1 or fewer
@pytest.mark.parametrize("seed", range(3))
def test_never_stops_at_the_untrained_loss(level, spread, seed):
    stop = hard_stop()
    mean = stop.floor if level == "floor" else float(theory.untrained_loss(9.99, 10))
    losses = np.random.default_rng(seed).normal(mean, spread, 5000)
    assert stop_at(stop, losses) is None
    assert "not clearly below 2.3016" in stop.reason
    if spread >= 0.1:
        # the average alone would have stopped
        averages = [mean for mean, _ in slow_averages(losses[:1000], np.ones(1000), stop.window)]
        assert min(averages[stop.window :]) < stop.plateau


@pytest.mark.parametrize("seed", range(5))
def test_stops_soon_after_crossing_at_high_noise(seed):
    stop = hard_stop()
    start, end = float(theory.untrained_loss(9.99, 10)), stop.plateau - 0.005
    mean = np.concatenate([np.full(500, start), np.linspace(start, end, 500), np.full(500, end)])
    losses = mean + np.random.default_rng(seed).normal(0, 0.015, len(mean))
    stopped = stop_at(stop, losses)
    assert mean[stopped] < stop.plateau + 0.004
    assert stopped < int((mean <= stop.plateau).argmax()) + 4 * stop.window


def test_a_high_start_neither_stops_nor_spoils_the_average():
    stop = hard_stop()
    steps = np.arange(3000)
    start = float(theory.untrained_loss(9.99, 10))
    losses = start + 20 * np.exp(-steps / 30) + np.random.default_rng(0).normal(0, 0.015, 3000)
    assert stop_at(stop, losses) is None
    falling = np.full(500, stop.plateau - 0.01)
    assert stop_at(stop, falling) < 150


def test_a_steady_fall_is_stopped_within_a_window():
    stop = AnalyticalStop(0.2, 9.99, 10)
    losses = np.linspace(2.4, 0.0, 200)
    crossing = int((losses <= stop.plateau).argmax())
    assert crossing < stop_at(stop, losses) < crossing + stop.window


def test_one_low_batch_does_not_stop():
    stop = AnalyticalStop(0.5, 9.99, 10)
    losses = np.full(300, 1.9)
    losses[200] = 0.0
    assert stop_at(stop, losses) is None


def test_a_model_that_starts_below_the_plateau_stops_at_the_first_look():
    stop = AnalyticalStop(0.5, 9.99, 10, window=20)
    assert stop_at(stop, np.full(100, 1.7)) == 20


def test_the_reason_of_a_collapsed_model_names_a_remedy():
    stop = AnalyticalStop(0.2, 5.0, 10)
    assert stop_at(stop, np.full(1000, math.log(5.0))) is None
    assert "cross-entropy" in stop.reason


@given(st.integers(1, 60), st.integers(0, 2**32 - 1), st.integers(2, 80))
def test_average_and_error_are_those_of_the_whole_history(window, seed, size):
    rng = np.random.default_rng(seed)
    losses, samples = rng.normal(2, 0.3, size), rng.integers(1, 129, size)
    stop = AnalyticalStop(0.5, 9.99, 10, window=window)
    for (average, error), loss, count in zip(
        slow_averages(losses, samples, window), losses, samples, strict=True
    ):
        stop.update(loss, int(count))
        if stop.state_dict()["stopped"]:
            assert average <= stop.plateau + 1e-12
            break
        assert stop.state_dict()["mean"] == pytest.approx(average)
        assert stop._progress.standard_error == pytest.approx(error)


def test_reason_follows_the_run():
    stop = AnalyticalStop(0.5, 9.99, 10, window=5)
    assert stop.reason == "not yet: seen 0 of the 5 losses it averages over"
    reasons = []
    for loss in [2.3] * 10 + [2.0] * 30 + [1.0] * 30:
        stop.update(loss)
        reasons.append(stop.reason)
    assert "seen 3 of the 5" in reasons[2]
    assert "not clearly below" in reasons[8]
    assert "above the plateau 1.7912" in reasons[39]
    assert "has reached the plateau 1.7912" in reasons[-1]
    assert reasons[-1] == reasons[-2]  # it says when it stopped, not what came after
    assert stop.update(99.0)


# --- AnalyticalStop: what users get wrong ---


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_says_when_training_diverged(bad):
    stop = AnalyticalStop(0.5, 9.99, 10)
    for _ in range(6):
        stop.update(2.3)
    before = stop.state_dict()
    with pytest.raises(AbstainError, match=r"at update 7: training has diverged"):
        stop.update(bad)
    assert stop.state_dict() == before


@given(st.floats(0, 1), st.integers(2, 20), st.floats(-1, 30), st.sampled_from(noise.KINDS[:3]))
def test_an_impossible_payoff_is_refused_with_one_that_works(rate, m, payoff, kind):
    try:
        stop = AnalyticalStop(rate, payoff, m, kind)
    except AbstainError as error:
        message = str(error)
    else:
        assert stop.plateau < stop.floor
        assert payoff < m
        return
    clean = 1 - rate * ((m - 1) / m if kind == "symmetric-any" else 1)
    remedy = re.search(r"payoff must lie in .*; try ([\d.]+)$", message)
    if remedy is None:
        assert "no payoff can work" in message
        assert clean <= (1 / 2 if kind == "pairflip" else 1 / m) + 1e-9
    elif clean > 1.01 / m:  # six digits of a payoff cannot hit a narrower interval
        stop = AnalyticalStop(rate, float(remedy[1]), m, kind)
        assert stop.plateau < stop.floor


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0.2, 9.99, 2), {}, r"payoff must lie in \(1.25, 2\).*got 9.99; try 1.95"),
        ((0.5, 1.9, 10), {}, r"payoff must lie in \(2, 10\).*got 1.9; try 9.99"),
        ((0.5, 2.0, 10), {}, "got 2; try 9.99"),
        ((0.5, 10.0, 10), {}, "got 10; try 9.99"),
        ((0.5, math.nan, 10), {}, "got nan; try 9.99"),
        ((0.95, 9.99, 10), {}, "rate must leave a plateau"),
        ((0.6, 9.99, 10, "pairflip"), {}, "rate must leave a plateau"),
        ((1.5, 9.99, 10), {}, r"rate must lie in \[0, 1\], got 1.5"),
        ((None, 9.99, 10), {}, "rate must be given for symmetric noise"),
        ((0.5, 9.99, 10, "instance"), {}, "noise must be one of .*, got 'instance'"),
        ((0.5, 1.9, 2, np.eye(2)), {}, "rate must be None"),
        ((None, 1.9, 3, np.eye(2)), {}, "noise must have 3 rows"),
        ((None, 1.9, 2, [[1, 1], [0, 1]]), {}, "sum to 1"),
        ((0.2, 1.9, 2), {"priors": [0.5, 0.6]}, "priors must be 2 shares"),
        ((0.2, 1.9, 2), {"priors": [0.5, 0.3, 0.2]}, "priors must be 2 shares"),
        ((0.2, 1.9, 2), {"window": 0}, "window must be at least 1, got 0"),
    ],
)
def test_impossible_settings_are_refused(arguments, options, message):
    with pytest.raises(AbstainError, match=message):
        AnalyticalStop(*arguments, **options)


def test_samples_must_be_positive():
    with pytest.raises(AbstainError, match="samples must be at least 1, got 0"):
        AnalyticalStop(0.5, 9.99, 10).update(2.3, 0)


# --- ValidationStop ---

accuracies = st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5]), min_size=1, max_size=30)


@given(accuracies, st.integers(1, 6))
def test_validation_stop_against_the_obvious(values, patience):
    stop = ValidationStop(patience)
    answers = [stop.update(value) for value in values]
    over = [
        # none of the last `patience` beats the best of those before
        len(seen) > patience and max(seen[-patience:]) <= max(seen[:-patience])
        for seen in (values[:k] for k in range(1, len(values) + 1))
    ]
    first = over.index(True) if True in over else len(values)
    assert answers == [False] * first + [True] * (len(values) - first)
    counted = values[: first + 1]
    assert (stop.best, stop.best_epoch) == (max(counted), counted.index(max(counted)) + 1)
    assert stop.epoch == len(counted)


def test_a_tie_is_not_better():
    stop = ValidationStop()
    assert [stop.update(0.5) for _ in range(6)] == [False] * 5 + [True]
    assert stop.best_epoch == 1
    assert stop.reason == "stopped at epoch 6: no accuracy above the 0.5000 of epoch 1 for 5 epochs"


def test_validation_reasons():
    stop = ValidationStop(3)
    assert stop.reason == "not yet: no epoch seen"
    stop.update(0.9)
    stop.update(0.8)
    assert stop.reason == "not yet: 1 of 3 epochs without an accuracy above the 0.9000 of epoch 1"


def test_validation_stop_refuses_nonsense():
    with pytest.raises(AbstainError, match="patience must be at least 1, got 0"):
        ValidationStop(0)
    stop = ValidationStop()
    stop.update(0.5)
    with pytest.raises(AbstainError, match="accuracy must be finite, got nan at epoch 2"):
        stop.update(math.nan)


# --- both: killed and resumed ---


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(0, 300))
def test_a_resumed_run_decides_bit_for_bit_the_same(seed, cut):
    rng = np.random.default_rng(seed)
    losses = 2.35 - 0.0006 * np.arange(300) + rng.normal(0, 0.05, 300)
    samples = rng.integers(1, 129, 300).tolist()

    def run(restart):
        stop, answers = hard_stop(), []
        for k, (loss, count) in enumerate(zip(losses, samples, strict=True)):
            if k == restart:
                state = json.loads(json.dumps(stop.state_dict()))
                stop = hard_stop()
                stop.load_state_dict(state)
            answers.append(stop.update(loss, count))
        return answers, stop.state_dict(), stop.reason

    whole = run(None)
    assert any(whole[0])
    assert run(cut) == whole


@given(accuracies, st.data())
def test_a_resumed_validation_stop_decides_the_same(values, data):
    cut = data.draw(st.integers(0, len(values)))
    whole, first, second = (ValidationStop(2) for _ in range(3))
    answers = [first.update(value) for value in values[:cut]]
    second.load_state_dict(first.state_dict())
    answers += [second.update(value) for value in values[cut:]]
    assert answers == [whole.update(value) for value in values]
    assert second.state_dict() == whole.state_dict()


def test_a_state_is_a_copy():
    for stop, value in [(hard_stop(), 2.3), (ValidationStop(), 0.5)]:
        before = stop.state_dict()
        stop.update(value)
        assert before != stop.state_dict()


def test_the_state_of_another_rule_is_refused():
    for one, other in [(hard_stop(), ValidationStop()), (ValidationStop(), hard_stop())]:
        with pytest.raises(AbstainError, match="state must have the keys"):
            one.load_state_dict(other.state_dict())


# --- a real run ---


@pytest.fixture
def one_thread():
    """So small a network is slower on several threads, by far where cores are shared."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_stops_a_real_run_before_it_memorises():
    """Digits, half of the labels wrong: right at the stop, memorised at the end."""
    torch.manual_seed(0)
    inputs, true = (torch.as_tensor(array) for array in load_digits(return_X_y=True))
    order = torch.randperm(len(true))
    inputs, true = inputs[order].float() / 16, true[order]
    train, test = slice(0, 1300), slice(1300, None)
    matrix = noise.symmetric(10, 0.5)
    labels = noise.corrupt(true[train], matrix, np.random.default_rng(0), exact=True)
    labels = torch.as_tensor(labels)
    wrong = labels != true[train]

    net = torch.nn.Sequential(
        torch.nn.Linear(64, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 11),
    )
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    payoff = 9.99
    stop = AnalyticalStop(0.5, payoff, 10)

    def judge():
        with torch.no_grad():
            predicted = net(inputs)[:, :10].argmax(1)
        accuracy = (predicted == true)[test].float().mean().item()
        memorised = (predicted[train] == labels)[wrong].float().mean().item()
        return accuracy, memorised

    at_stop, stopped_in = None, None
    for epoch in range(40):
        for batch in torch.randperm(1300).split(32):
            z = net(inputs[train][batch])
            bet = torch.logaddexp(
                z.gather(1, labels[batch, None])[:, 0], z[:, 10] - math.log(payoff)
            )
            loss = (z.logsumexp(1) - bet).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if stop.update(loss.item(), len(batch)) and at_stop is None:
                at_stop, stopped_in = judge(), epoch

    accuracy, memorised = judge()
    assert stopped_in is not None
    assert 1 <= stopped_in <= 15
    assert at_stop[0] > 0.85
    assert at_stop[0] > accuracy + 0.1
    assert at_stop[1] < 0.15
    assert memorised > 0.4
