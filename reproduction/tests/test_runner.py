"""Tests of runner.py, executors.py, groups.py, cost.py and reproduce.py."""

import math
from typing import ClassVar

import pytest
import torch
from paper_runs import hand_made, tiny_run, tiny_task

from abstain.data import load
from abstain.errors import AbstainError
from reproduction.cost import Cost
from reproduction.executors import Executor
from reproduction.groups import Group, make_groups
from reproduction.recipes import make_run
from reproduction.record import machine
from reproduction.reproduce import Means, make_plan, missing_runs, train_missing
from reproduction.runner import Budget, Quiet, run_target
from reproduction.store import RecordStore
from reproduction.targets import Cell, Scale, Target


class Trainer:
    """The real executor, which also remembers what it was asked for."""

    def __init__(self):
        self.calls = []

    def __call__(self, task, recipes):
        self.calls.append(recipes)
        return Executor()(task, recipes)


def run_all(runs, store, execute, budget=None, most=4, cost=None):
    return run_target(
        runs,
        store,
        execute,
        Budget(budget),
        Quiet(),
        load=tiny_task,
        cost=cost or Cost(),
        most=most,
    )


def tiny_target():
    rows = [("digits", 0.2), ("digits", 0.4)]
    cells = [Cell(row=row, column="nll", base=tiny_run(flip=row[1])) for row in rows]
    return Target(name="tiny", title="tiny", cells=lambda _scale: cells)


def test_runs_are_trained_and_kept(tmp_path):
    store = RecordStore(tmp_path)
    runs = [tiny_run(seed, flip=0.2) for seed in range(3)]
    outcome = run_all(runs, store, Trainer())
    assert (outcome.done, outcome.postponed, outcome.refused) == (3, 0, {})
    for run in runs:
        record = store.all()[run.name]
        assert len(record.history["loss"]) == 2
        assert record.machine["device"] == machine()["device"]
        assert record.separation is not None
        assert record.stop_epoch == 2
    assert len({record.history["loss"][0] for record in store.all().values()}) == 3


def test_a_run_that_exists_is_not_run_again(tmp_path):
    store, trainer, known = RecordStore(tmp_path), Trainer(), {}
    means = Means(execute=trainer, load=tiny_task, report=Quiet(), cost=Cost(), most=4)
    targets, scale = [tiny_target()], Scale(seeds=1)
    assert train_missing(targets, scale, store, known, Budget(None), means).done == 2
    assert train_missing(targets, scale, store, store.all(), Budget(None), means).done == 0
    assert train_missing(targets, Scale(seeds=2), store, known, Budget(None), means).done == 2
    asked = [recipe for call in trainer.calls for recipe in call]
    assert len(asked) == len(set(asked)) == 4


def test_an_interrupt_loses_no_group_that_was_done(tmp_path):
    store = RecordStore(tmp_path)

    def execute(task, recipes):
        if store.all():
            raise KeyboardInterrupt
        return Executor()(task, recipes)

    with pytest.raises(KeyboardInterrupt):
        run_all([tiny_run(seed) for seed in range(3)], store, execute, most=1)
    assert set(store.all()) == {tiny_run(0).name}


def test_a_budget_has_time_for_whole_cells(tmp_path):
    runs = [tiny_run(seed, flip=rate) for rate in (0.2, 0.4) for seed in range(2)]
    cost = Cost()
    # Made here before, each in 10 s: four of them would take 40.
    cost.learn(runs, 40.0)
    trainer, store = Trainer(), RecordStore(tmp_path)
    outcome = run_all(runs, store, trainer, budget=0.5, cost=cost)
    assert outcome.done + outcome.postponed == 4
    assert [recipe.flip for recipe in trainer.calls[0]] == [0.2, 0.2]
    assert run_all(runs, RecordStore(tmp_path / "none"), trainer, budget=0).done == 0


def test_what_cannot_be_run_here_does_not_hold_up_the_rest(tmp_path):
    def execute(task, recipes):
        if recipes[0].optimizer == "laprop":
            raise AbstainError("no such optimiser here")
        return Executor()(task, recipes)

    runs = [tiny_run(optimizer="laprop"), tiny_run()]
    outcome = run_all(runs, RecordStore(tmp_path), execute)
    assert outcome.done == 1
    assert outcome.refused == {"no such optimiser here": 1}


def test_a_group_too_large_for_the_device_is_halved(tmp_path):
    def execute(task, recipes):
        if len(recipes) > 1:
            raise torch.cuda.OutOfMemoryError
        return Executor()(task, recipes)

    assert run_all([tiny_run(s) for s in range(3)], RecordStore(tmp_path), execute).done == 3


def test_groups_share_what_a_stack_must_share():
    runs = [
        make_run(data, method, 0.5).with_seed(seed)
        for data in ("mnist", "cifar10")
        for method in ("nll", "lq", "gamblers_aes", "validation", "coteaching_plus")
        for seed in range(3)
    ]
    groups = make_groups(runs, 64)
    assert sorted(run.name for g in groups for run in g.runs) == sorted(run.name for run in runs)
    for group in groups:
        recipes = [run.recipe for run in group.runs]
        for setting in ("batch", "optimizer", "learning_rate", "epochs", "stop"):
            assert len({getattr(recipe, setting) for recipe in recipes}) == 1
        assert len({run.data for run in group.runs}) == 1
    assert [len(g.runs) for g in groups] == [6, 3, 3, 3, 6, 3, 3, 3]


def test_seeds_of_a_cell_stay_together():
    runs = [tiny_run(seed, flip=rate) for rate in (0.1, 0.2, 0.3) for seed in range(3)]
    assert [len(g.runs) for g in make_groups(runs, 7)] == [6, 3]
    assert [len(g.runs) for g in make_groups(runs, 2)] == [2, 1, 2, 1, 2, 1]
    assert Group(tuple(runs)).fitting(lambda part: len(part.runs) <= 5).runs == tuple(runs[:3])
    assert Group(tuple(runs)).fitting(lambda part: False) is None


def test_cost_learns_from_this_machine_only():
    run = tiny_run(epochs=2)
    here = Cost([hand_made(run, seconds=100.0, device=machine()["device"])])
    elsewhere = Cost([hand_made(run, seconds=100.0, device="another")])
    assert here.seconds([run]) == pytest.approx(100)
    assert elsewhere.seconds([run]) == Cost().seconds([run]) < 10


def test_a_plan_says_what_is_missing():
    target, scale = tiny_target(), Scale(seeds=2)
    known = {r.name: r for r in [hand_made(tiny_run(0, flip=0.2))]}
    (plan,) = make_plan([target], scale, known, Cost(), 1)
    assert (plan.runs, plan.missing) == (4, 3)
    assert plan.seconds > 0
    assert len(missing_runs([target, target], scale, known)) == 3
    again = make_plan([target, target], scale, known, Cost(), 1)
    assert [p.missing for p in again] == [3, 0]


@pytest.mark.parametrize("minutes", [-1, math.nan])
def test_a_budget_must_be_a_time(minutes):
    with pytest.raises(AbstainError, match=f"budget must be at least 0 minutes, got {minutes}"):
        Budget(minutes)


def test_a_budget_leaves_time_for_what_follows():
    assert Budget(10).allows(590)
    assert not Budget(10, reserve=15).allows(590)
    assert Budget(10, reserve=15).allows(580)
    # Of a short one most is for training all the same.
    assert Budget(0.2, reserve=15).allows(8)
    assert not Budget(0.2, reserve=15).allows(10)
    assert Budget(None, reserve=15).allows(1e9)


def test_a_store_that_cannot_be_written_is_refused_before_anything_is_trained(tmp_path):
    (tmp_path / "file").touch()
    store, trainer = RecordStore(tmp_path / "file/runs"), Trainer()
    means = Means(execute=trainer, load=tiny_task, report=Quiet(), cost=Cost(), most=1)
    with pytest.raises(AbstainError, match="store must be a folder that can be written"):
        train_missing([tiny_target()], Scale(seeds=1), store, {}, Budget(None), means)
    assert not trainer.calls


def test_a_store_that_fails_ends_the_grid_instead_of_losing_run_after_run(tmp_path):
    store, trainer = RecordStore(tmp_path / "runs"), Trainer()

    def execute(task, recipes):
        results = trainer(task, recipes)
        store.folder.rmdir()
        store.folder.touch()
        return results

    store.check()
    assert not list(store.folder.iterdir())
    with pytest.raises(AbstainError, match="store must be a folder that can be written"):
        run_all([tiny_run(seed) for seed in range(3)], store, execute, most=1)
    assert len(trainer.calls) == 1


def test_a_report_hears_when_nothing_is_left(tmp_path):
    class Recorder(Quiet):
        plans: ClassVar = []

        def plan(self, runs, seconds):
            self.plans.append((runs, seconds))

    runs = [tiny_run(seed) for seed in range(2)]
    settings = {"load": tiny_task, "cost": Cost(), "most": 1}
    run_target(runs, RecordStore(tmp_path), Executor(), Budget(None), Recorder(), **settings)
    assert [runs for runs, _ in Recorder.plans] == [2, 1, 0]
    assert Recorder.plans[-1] == (0, 0.0)


def test_a_network_that_is_not_stacked_is_trained_alone():
    recipe = tiny_run(flip=0.2).recipe.resolved(num_samples=1442, num_classes=10)
    result = Executor()._one(tiny_task(), recipe)
    assert result.stop_epoch == 2
    assert len(result.epochs) == 2
    assert result.test_accuracy == result.epochs[-1]["test_accuracy"]
    right = result.given == load("digits").given.numpy()
    assert 0.75 < right.mean() < 0.85
    assert result.belief[right].mean() > 2 * result.belief[~right].mean()
    assert ((result.rejection > 0) & (result.rejection < 1)).all()
