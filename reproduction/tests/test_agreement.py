"""Tests of agreement.py, cells_page.py, published.py, searched.py and searched_page.py."""

import numpy as np
import pytest
from paper_runs import hand_made

from reproduction.agreement import Runs, cell_views, runs_of
from reproduction.evidence import Evidence
from reproduction.published import logged, published
from reproduction.recipes import make_run
from reproduction.searched import candidates
from reproduction.searched_page import best_settings, chosen_by_held_out
from reproduction.targets import Scale
from reproduction.variants import VARIANTS

SCALE = Scale(seeds=2)


def flat(run, percent, **changes):
    epochs = run.recipe.epochs
    return hand_made(run, percent / 100, test_accuracy=[percent / 100] * epochs, **changes)


def test_a_single_run_spreads_over_seeds_and_over_its_last_epochs():
    base = make_run("mnist", "nll", 0.2)
    rng = np.random.default_rng(0)
    levels = (0.80, 0.82, 0.84)
    noises = [rng.normal(0, 0.01, 50) for _ in levels]
    records = [
        hand_made(base.with_seed(i), test_accuracy=level + noise)
        for i, (level, noise) in enumerate(zip(levels, noises, strict=True))
    ]
    runs = runs_of(records)
    last = [100 * (level + noise[-5:]) for level, noise in zip(levels, noises, strict=True)]
    means = [x.mean() for x in last]
    assert runs.accuracies == pytest.approx(means)
    within = np.mean([x.std() for x in last])
    assert runs.spread == pytest.approx(np.hypot(np.std(means, ddof=1), within))
    edge = runs.mean + 3 * runs.spread
    assert (runs.may_be(edge - 0.01), runs.may_be(edge + 0.01)) == (True, False)


def test_runs_that_collapse_do_not_agree_with_what_lies_between():
    runs = Runs((19.5, 30.6, 76.1, 86.9, 96.1), (2.0,) * 5, 50)
    assert runs.is_split
    assert [runs.may_be(x) for x in (61.8, 72.8, 76.5)] == [False, False, True]
    # Epochs as wide as ten points agree with nothing farther than three.
    assert not Runs((10.0, 80.0), (10.0, 10.0), 50).may_be(74.0)


def test_a_stop_counts_by_the_model_that_it_keeps():
    run = make_run("mnist", "validation", 0.2)
    record = hand_made(run, 0.95, test_accuracy=np.linspace(0.9, 0.2, 120))
    assert runs_of([record]).accuracies == (95.0,)


def test_without_the_last_class_another_column_is_read():
    run = make_run("mnist", "nll", 0.2)
    record = flat(run, 97.0, test_accuracy_without_last=[0.88] * 50)
    assert runs_of([record], without_last=True).mean == pytest.approx(88.0)


def gamblers(ours, tried, what="payoff 9.9"):
    """Views of the gambler's column on MNIST: how far off each row is, with and without it."""
    known = []
    for variant in VARIANTS:
        if variant.column != f"symmetric gamblers: {what}" or variant.data != "mnist":
            continue
        theirs = published("symmetric").cell("mnist", variant.rate, "gamblers").mean
        known.append(flat(make_run("mnist", "gamblers", variant.rate), theirs + ours[variant.rate]))
        if variant.rate in tried:
            known.append(flat(variant.run(), theirs + tried[variant.rate]))
    found = cell_views(Evidence(known, SCALE), "table-symmetric")
    return {view.rate: view for view in found}


def test_a_cause_is_a_setting_that_was_run_in_the_whole_column():
    ours = {0.2: 0.0, 0.5: 9.0, 0.65: 9.0, 0.8: 9.0}
    views = gamblers(ours, {0.2: 9.0, 0.5: 0.0, 0.65: 0.0, 0.8: 9.0})
    verdicts = [views[rate].verdict for rate in ours]
    assert verdicts == ["agrees", "as they ran it", "as they ran it", "open"]
    views = gamblers(ours, {0.5: 0.0, 0.65: 0.0, 0.8: 0.0})
    assert [views[rate].verdict for rate in ours] == ["agrees", "open", "open", "open"]


def test_one_setting_is_taken_for_a_column():
    ours = dict.fromkeys((0.2, 0.5, 0.65, 0.8), 9.0)
    views = gamblers(ours, dict.fromkeys(ours, 0.0))
    assert {view.chosen for view in views.values()} == {"payoff 9.9"}
    assert {view.verdict for view in views.values()} == {"as they ran it"}


def test_a_number_that_is_not_in_the_log_is_held_against_the_log():
    base = make_run("cifar10", "gamblers", 0.45, "pairflip")
    for level, verdict in ((34.6, "not in their log"), (60.0, "open"), (24.6, "agrees")):
        known = [flat(base.with_seed(seed), level) for seed in range(2)]
        (view,) = cell_views(Evidence(known, SCALE), "table-pairflip")
        assert view.verdict == verdict


def test_all_but_three_printed_numbers_follow_from_the_logs():
    apart = [
        (kind, *row, method)
        for kind in ("symmetric", "pairflip")
        for row, cells in published(kind).rows.items()
        for method, cell in zip(published(kind).columns, cells, strict=True)
        if (log := logged(kind, *row, method)) is not None and log.differs(cell)
    ]
    assert apart == [
        ("symmetric", "cifar10", 0.2, "schedule"),
        ("symmetric", "cifar10", 0.8, "lq"),
        ("pairflip", "cifar10", 0.45, "gamblers"),
    ]


def test_settings_are_chosen_by_held_out_labels_and_not_by_the_test_set():
    known = []
    for candidate in candidates():
        if (candidate.data, candidate.rate, candidate.kind) != ("mnist", 0.5, "symmetric"):
            continue
        q = dict(candidate.changes).get("q", 0.0)
        run = candidate.run()
        held_out = np.full(run.recipe.epochs, 0.3 + 0.1 * q)
        known.append(hand_made(run, 0.9 - q / 2, validation_accuracy=held_out))
    choices = best_settings(Evidence(known, SCALE), "mnist", 0.5, "symmetric")
    assert choices["lq"].candidate.what == "q = 0.9"
    assert choices["lq"].stat.mean == pytest.approx(45.0)
    assert chosen_by_held_out(choices) == choices["lq"]
    assert set(choices) == {"nll", "lq", "gamblers", "schedule"}
