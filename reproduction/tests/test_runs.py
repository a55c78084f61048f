"""Tests of runs.py, recipes.py and targets.py."""

import json
import math
from dataclasses import dataclass, replace

import pytest

from abstain.errors import AbstainError
from abstain.training.plan import Plan
from reproduction import runs
from reproduction.recipes import METHODS, SETTINGS, make_run
from reproduction.runs import Run
from reproduction.targets import TARGETS, Scale, chosen


def test_names_of_runs_never_change():
    # A store that was filled by an older version must still be found.
    assert make_run("mnist", "schedule", 0.8).name == "23564c297608b258"
    assert make_run("imdb", "gamblers_aes", 0.3).with_seed(2).name == "7cf846a2aa5338b5"
    assert make_run("mnist", "nll_entropy", 0.5).name == "acb58a1f911b1496"


def test_a_setting_that_is_added_later_leaves_names_as_they_are(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class LaterRecipe(Plan):
        new_setting: int = 7

    monkeypatch.setitem(runs._DEFAULTS, "new_setting", 7)
    old = Run(data="mnist", network="mnist-cnn", recipe=Plan(epochs=3))
    assert replace(old, recipe=LaterRecipe(epochs=3)).name == old.name
    assert replace(old, recipe=LaterRecipe(epochs=3, new_setting=8)).name != old.name


def test_what_decides_a_run_decides_its_name():
    base = make_run("mnist", "gamblers", 0.5)
    others = [
        base.with_seed(1),
        base.with_payoff(9.0),
        replace(base, data="cifar10"),
        replace(base, network="mlp"),
        replace(base, recipe=replace(base.recipe, flip=0.4)),
        replace(base, recipe=replace(base.recipe, epochs=51)),
    ]
    assert len({base.name, *(run.name for run in others)}) == 7
    # How a machine computes is not part of what was asked for.
    assert replace(base, recipe=replace(base.recipe, precision="bf16")).name == base.name


def test_whole_numbers_and_floats_are_alike():
    run = make_run("mnist", "gamblers", 0.5)
    assert run.with_payoff(9).name == run.with_payoff(9.0).name


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", SETTINGS)
def test_every_method_is_a_recipe_that_can_be_run_and_read_again(method, data):
    run = make_run(data, method, 0.3)
    classes = 2 if data == "imdb" else 10
    resolved = run.recipe.resolved(num_samples=25_000, num_classes=classes)
    # Nothing is left open that another version could fill in otherwise.
    assert replace(run, recipe=resolved).name == run.name
    again = Run.from_json(json.loads(json.dumps(run.as_json())))
    assert again == run
    assert again.name == run.name


def test_settings_are_those_of_the_paper():
    assert make_run("mnist", "nll", 0.2).recipe.epochs == 50
    assert make_run("cifar10", "schedule", 0.2).recipe.warm_up == 10
    assert make_run("imdb", "lq", 0.2).recipe.optimizer == "laprop"
    aes = make_run("imdb", "gamblers_aes", 0.2).recipe
    assert (aes.payoff, aes.rate, aes.stop) == (1.95, 0.2, "analytical")
    released = make_run("mnist", "schedule_released", 0.2).recipe
    assert (released.guard, released.warm_up) == (1e-10, 0)
    assert make_run("mnist", "nll_entropy", 0.2).recipe.payoff == math.inf
    ves = make_run("mnist", "validation", 0.2).recipe
    assert (ves.hold_out, ves.patience, ves.payoff) == (0.1, 5, 9.99)
    assert make_run("cifar10", "coteaching_plus", 0.5).recipe.warm_up == 20


def test_targets_have_the_rows_and_columns_of_the_paper():
    one = Scale(seeds=1)
    rows = {name: {cell.row for cell in t.cells(one)} for name, t in TARGETS.items()}
    assert [len(rows[f"table-{name}"]) for name in ("symmetric", "stopping", "pairflip")] == [
        12,
        7,
        6,
    ]
    assert ("cifar10", 0.85) in rows["figure-stopping"]
    assert rows["figure-rejection"] == {("mnist", 0.2), ("mnist", 0.5), ("mnist", 0.8)}
    assert len(TARGETS["table-symmetric"].runs(Scale(seeds=3))) == 3 * len(
        TARGETS["table-symmetric"].runs(one)
    )


def test_figures_share_runs_with_tables():
    table = {run.name for run in TARGETS["table-symmetric"].runs(Scale())}
    for name in ("figure-rejection", "figure-stages"):
        assert {run.name for run in TARGETS[name].runs(Scale())} <= table


def test_an_unknown_target_is_named():
    with pytest.raises(AbstainError, match=r"got 'table-symetric'; did you mean table-symmetric\?"):
        chosen("table-symetric")
