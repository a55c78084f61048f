"""Tests of trials.py, reasons.py and variants.py."""

import math
from dataclasses import replace

import numpy as np
import pytest
from paper_runs import hand_made

from reproduction.evidence import Evidence, Stat
from reproduction.published import Published, published
from reproduction.reasons import reasons
from reproduction.targets import TARGETS, Scale
from reproduction.trials import Column, Trial, columns, explains
from reproduction.variants import VARIANTS

SCALE = Scale(seeds=2)


def stat(mean, spread=0.5):
    return Stat(mean, spread, 3, 50.0)


def column(**trials):
    """Paper 90, 80, 70 at 0.2, 0.5, 0.8; ours agrees at 0.2 and is 10 too low at the others."""
    return Column(
        target="table-symmetric",
        data="mnist",
        method="gamblers",
        paper={0.2: Published(90, 0.5), 0.5: Published(80, 0.5), 0.8: Published(70, 0.5)},
        ours={0.2: stat(90.2), 0.5: stat(70), 0.8: stat(60)},
        trials=tuple(
            Trial(
                what, {rate: stat(mean) for rate, mean in zip((0.2, 0.5, 0.8), means, strict=True)}
            )
            for what, means in trials.items()
        ),
    )


@pytest.mark.parametrize(
    ("tried", "expected"),
    [
        (stat(79.5), True),
        (stat(79.5, math.nan), True),
        (stat(78.0), False),  # nearer by far, but four spreads away
        (stat(76.0, 2.0), True),
        (stat(74.0, 3.0), False),  # within its spread, but most of the difference is left
        (stat(80.0, 6.0), False),  # so wide that it would fit many numbers
        (stat(88.0), False),
    ],
)
def test_a_trial_explains_by_its_mean_and_not_by_its_spread(tried, expected):
    assert explains(tried, stat(70), Published(80, 0.5)) is expected


def test_one_setting_must_give_all_rows_and_break_none():
    found = column(all=(90.1, 79.8, 70.3), breaks=(95.0, 79.8, 70.3), half=(90.0, 79.8, 64.0))
    assert found.differing == [0.5, 0.8]
    given, breaks, half = found.trials
    assert [found.settled_by(trial) for trial in found.trials] == [True, False, False]
    assert (found.explained(half), found.broken(breaks), found.broken(given)) == ([0.5], [0.2], [])


def test_a_wide_spread_does_not_pass_for_agreement():
    found = column()
    assert found.broken(Trial("wide", {0.2: stat(60, 30.0)})) == [0.2]


def test_reasons_say_what_explains_what_does_in_part_and_what_does_not():
    (line,) = reasons([column(one=(90, 80, 70), other=(90, 71, 61))])
    assert line == (
        "- **MNIST** gambler's (0.5: -10.0, 0.8: -10.0): **explained** by one (80.0, 70.0)."
    )
    (line,) = reasons([column(one=(99, 80, 61), other=(90, 71, 61))])
    assert line.endswith(
        "**in part**, and by no one setting in all rows: one gives 0.5, not 0.8 (61.0 against "
        "70.0), and no longer 0.2 (99.0 against 90.0). Tried, to no avail: other (71.0, 61.0)."
    )
    (line,) = reasons([column()])
    assert line.endswith("**not explained.** Nothing was tried on it.")


def test_a_trial_that_only_its_spread_disqualifies_is_listed_with_it():
    wide = Trial("wide", {0.5: stat(80.0), 0.8: stat(70.1, 6.0)})
    (line,) = reasons([replace(column(), trials=(wide,))])
    assert line.endswith("wide gives 0.5, not 0.8 (70.1 ± 6.0 against 70.0).")
    wider = Trial("wider", {0.2: stat(90.0, 6.0), 0.5: stat(60.0, 6.0), 0.8: stat(70.1, 6.0)})
    (line,) = reasons([replace(column(), trials=(wider,))])
    assert line.endswith("Tried, to no avail: wider (60.0, 70.1 ± 6.0).")


def test_the_last_model_of_a_validation_stop_is_a_trial():
    cells = [c for c in TARGETS["table-stopping"].cells(SCALE) if c.column == "validation"]
    known = []
    for cell in cells:
        theirs = published("early_stopping").cell(*cell.row, "validation").mean / 100
        falls = np.linspace(1.0, theirs, cell.base.recipe.epochs)
        known.append(hand_made(cell.base, min(theirs + 0.3, 1.0), test_accuracy=falls))
    for found in columns(Evidence(known, SCALE), "table-stopping"):
        (trial,) = found.trials
        assert trial.what == "the model at the stop, not of the best epoch"
        assert found.settled_by(trial)


def test_columns_with_the_same_reason_share_a_line_and_notes_come_once():
    first, second = (
        Column(
            target="table-symmetric",
            data="imdb",
            method=method,
            paper={0.2: Published(70, 0.5)},
            ours={0.2: stat(80)},
        )
        for method in ("nll", "lq")
    )
    shared, note = reasons([first, second])
    assert shared.startswith("- **IMDB** nll (0.2: +10.0), L_q (0.2: +10.0): **not explained.**")
    assert note.startswith("- Not tried on IMDB")


def cells(method, data="mnist"):
    return [
        cell
        for cell in TARGETS["table-symmetric"].cells(SCALE)
        if cell.column == method and cell.row[0] == data
    ]


def known_column(known, method, data="mnist"):
    found = columns(Evidence(known, SCALE), "table-symmetric")
    (one,) = [c for c in found if (c.data, c.method) == (data, method)]
    return one


def test_an_earlier_epoch_counts_only_where_it_gives_several_rows():
    known = []
    for cell in cells("nll")[:2]:
        theirs = published("symmetric").cell(*cell.row, "nll").mean / 100
        falls = [theirs + 0.02, theirs + 0.01, *[theirs] * 3, *[theirs - 0.1] * 45]
        record = hand_made(cell.base, theirs - 0.1, test_accuracy=falls)
        known.append(record)
    (trial,) = known_column(known, "nll").trials
    assert trial.what == "epoch 3 of 50"
    assert known_column(known[:1], "nll").trials == ()


def test_other_columns_of_ours_are_trials_too():
    released = {cell.row: cell for cell in cells("schedule_released")}
    known = []
    for cell in cells("schedule"):
        theirs = published("symmetric").cell(*cell.row, "schedule").mean / 100
        known.append(hand_made(cell.base, theirs - 0.3))
        known.append(hand_made(released[cell.row].base, theirs))
    found = known_column(known, "schedule")
    (trial,) = [trial for trial in found.trials if trial.what == "as released"]
    assert found.settled_by(trial)


def test_variants_are_found_and_rows_not_yet_run_are_left_out():
    variants = [
        v for v in VARIANTS if (v.data, v.method) == ("cifar10", "lq") and v.what == "q = 0.5"
    ]
    known = [hand_made(cell.base, 0.2) for cell in cells("lq", "cifar10")]
    assert known_column(known, "lq", "cifar10").trials == ()
    known.append(hand_made(variants[0].run(), 0.3))
    (trial,) = known_column(known, "lq", "cifar10").trials
    assert (trial.what, list(trial.stats)) == ("q = 0.5", [variants[0].rate])
