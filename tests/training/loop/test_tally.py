"""Steps judged together give the sums and the ledger of steps judged one by one."""

import numpy as np
import pytest
import torch

from abstain.losses import stake
from abstain.scores.ledger import Ledger
from abstain.training.loop.evaluation import SUMS, Tally, means
from abstain.training.objective.losses import Objective
from abstain.training.plan import Plan

SAMPLES, CLASSES = 11, 3
SIZES = (4, 4, 0, 2)  # one process has no sample left in a step, and the last batch is small
RECIPES = {
    "rule": Plan(epochs=2, warm_up=0),
    "fixed": Plan(epochs=2, warm_up=0, payoff=2.5),
    "none": Plan(epochs=2, loss="lq", warm_up=0),
}


@pytest.fixture(params=RECIPES)
def objective(request):
    return Objective(RECIPES[request.param])


def make_steps(objective, seed=0):
    rng = torch.Generator().manual_seed(seed)
    order = torch.randperm(SAMPLES, generator=rng)[: sum(SIZES)]
    given, true = (torch.randint(0, CLASSES, (SAMPLES,), generator=rng) for _ in range(2))
    logits = 3 * torch.randn(len(order), CLASSES + 1, dtype=torch.float64, generator=rng)
    losses = objective(logits, given[order], 0)
    split = (torch.split(x, SIZES) for x in (order, logits, losses))
    return given, true, list(zip(*split, strict=True))


def sums_by_loops(objective, given, true, index, logits, losses):
    sums = dict.fromkeys(SUMS, 0.0)
    for i, row, loss in zip(index.tolist(), logits, losses.tolist(), strict=True):
        payoff = objective.payoff(row.unsqueeze(0), 0)
        label, is_right = int(given[i]), bool(given[i] == true[i])
        sums["loss"] += loss
        sums["correct"] += int(row[:-1].argmax()) == label
        sums["stake"] += float(stake(row))
        sums["log_payoff"] += 0.0 if payoff is None else float(payoff.log())
        sums["clean_loss"] += loss * is_right
        sums["clean"] += is_right
        sums["corrupt"] += not is_right
        sums["samples"] += 1
    return list(sums.values())


def test_the_sums_of_a_step_are_those_of_its_samples(objective):
    given, true, steps = make_steps(objective)
    tally = Tally(Ledger(SAMPLES), given, true)
    for step in steps:
        tally.add(*step)
    assert len(tally) == len(SIZES)
    got = tally.take(objective, 0)
    expected = [sums_by_loops(objective, given, true, *step) for step in steps]
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    assert len(tally) == 0


def test_the_ledger_is_that_of_single_steps(objective):
    given, true, steps = make_steps(objective)
    ledgers = Ledger(SAMPLES), Ledger(SAMPLES)
    tally = Tally(ledgers[0], given, true)
    for index, logits, losses in steps:
        tally.add(index, logits, losses)
        ledgers[1].update(index, logits, given[index], objective.payoff(logits, 0))
    tally.take(objective, 0)
    for name in ("visits", "wrong", "belief", "margin", "abstention", "payoff"):
        got, expected = (getattr(ledger, name).numpy() for ledger in ledgers)
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=name)


def test_packed_steps_are_taken_up_by_one_process_and_empty_in_the_others(objective):
    given, true, steps = make_steps(objective)
    tally, mine, other = (Tally(Ledger(SAMPLES), given, true) for _ in range(3))
    for step in steps:
        tally.add(*step)
    packed = tally.packed()
    mine.unpack(packed, mine=True)
    other.unpack(packed, mine=False)
    sums = tally.take(objective, 0)
    assert torch.equal(mine.take(objective, 0), sums)
    assert torch.equal(other.take(objective, 0), torch.zeros_like(sums))
    assert not other.ledger.visits.any()
    assert Tally(Ledger(SAMPLES), given).packed() == {}


def test_means_leave_out_what_there_was_nothing_of():
    row = means([6.0, 1, 2.0, 0.0, 0.0, 0, 4, 4])
    assert row == {"loss": 1.5, "train_accuracy": 0.25, "stake": 0.5, "corrupt_loss": 1.5}
