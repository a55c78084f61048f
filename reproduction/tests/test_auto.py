"""Tests of auto_page.py and auto_evidence.py: the page of the method `auto`."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from paper_runs import hand_made
from scipy.optimize import brentq

from abstain.data import BUILTIN
from abstain.training.objective.warm_up import WarmUp, held_out_samples
from reproduction.auto_evidence import (
    DEVELOPMENT,
    GIVEN_THE_RATE,
    Course,
    Place,
    auto_rows,
    best_published,
    course,
)
from reproduction.auto_page import make_auto_page
from reproduction.evidence import Evidence
from reproduction.parquet import read_results, write_results
from reproduction.published import published
from reproduction.recipes import METHODS, make_run
from reproduction.record import Record
from reproduction.reproduce import Places, publish
from reproduction.targets import ABLATED, AUTO, TARGETS, Scale

SCALE = Scale(seeds=2)


def judged(epochs, best, switched):
    """Held-out losses of a warm-up that was best at one epoch and ended at another."""
    losses = np.full(epochs, np.nan)
    losses[:switched] = 1 + 0.1 * np.abs(np.arange(1, switched + 1) - best)
    return losses


def auto_record(cell, seed, accuracy, best=4, switched=9):
    run = cell.base.with_seed(seed)
    if run.recipe.warm_up_ends == "fixed":
        return hand_made(run, accuracy)
    losses = judged(run.recipe.epochs, best, switched)
    return hand_made(run, accuracy, validation_loss=losses)


def some_records(accuracy, *names, only=lambda cell: True, seeds=2):
    """Each cell of some targets, at an accuracy in % that depends on it."""
    known = [
        auto_record(cell, seed, accuracy(cell) / 100)
        for name in names
        for cell in TARGETS[name].cells(SCALE)
        for seed in range(seeds)
        if only(cell)
    ]
    return list({record.name: record for record in known}.values())


def make(known, scale=SCALE):
    return make_auto_page(Evidence(known, scale), drawn=False)


def line(page, start):
    return next(text for text in page.splitlines() if text.startswith(start))


def paper_best(cell):
    row = published(cell.base.recipe.flip_kind).rows.get(cell.row)
    return 50.0 if row is None else max(published_cell.mean for published_cell in row)


@pytest.mark.parametrize(("above", "score"), [(0.1, 18), (0.0, 18), (-0.1, 0)])
def test_score_counts_the_rows_that_reach_our_best_baseline(above, score):
    known = some_records(
        lambda cell: paper_best(cell) + above * cell.column.startswith("auto"),
        "table-symmetric",
        "table-pairflip",
        AUTO,
        only=lambda cell: cell.row[1] and cell.column in ("nll", "auto", "auto pairflip"),
    )
    page = make(known)
    assert f"**Score: {score} of 18 rows** against the best of our own runs" in page
    assert f"best number that the paper prints: {score} of 18 rows" in page
    assert "(18 of 18 rows run)" in page
    assert page.count(": 0.10 points below") == 18 - score
    assert ("Lost rows" in page) == (score == 0)


def test_a_row_not_run_is_named_and_never_won():
    page = make(some_records(lambda cell: 99.9, AUTO, only=lambda cell: cell.row[0] == "mnist"))
    assert "best number that the paper prints: 7 of 7 rows (3 of 3 that were not used" in page
    assert "development rows, with fresh seeds: 4 of 4" in page
    assert line(page, "| IMDB symmetric 0.3 |") == (
        "| IMDB symmetric 0.3 | – | – | – | 67.3 Co-teaching+\\* | – |"
    )
    assert "Not run: IMDB symmetric 0.15" in page
    assert "MNIST symmetric 0.2 (2)" in line(page, "- fewer seeds than wanted")
    assert "runs are missing; to make up for it: `python -m reproduction auto --seeds 2`" in page


def test_nothing_run_scores_nothing():
    page = make([])
    assert "**Score: 0 of 18 rows** against" in page
    assert "(0 of 18 rows run)" in page
    assert "Nothing has been run yet." in page
    assert "✔" not in page


def test_a_row_shows_margins_over_the_paper_and_over_our_own_best():
    own = {"auto": 96.0, "nll": 20.0, "gamblers_aes": 97.0, "lq": 40.0}
    known = some_records(
        lambda cell: own[cell.column],
        "table-symmetric",
        AUTO,
        only=lambda cell: cell.row == ("mnist", 0.8) and cell.column in own,
    )
    page = make(known)
    assert line(page, "| MNIST symmetric 0.8 †") == (
        "| MNIST symmetric 0.8 † | 96.0 ± 0.0 (2) | 97.0 ± 0.0 (2) gambler's, AES\\* | ✘ −1.00 "
        "| 95.0 gambler's, AES\\*; schedule | ✔ +1.00 |"
    )
    assert "- not run yet: nll in 17 rows, Co-t" in page


def test_best_published_number_is_found_among_all_methods():
    for kind, table in (("symmetric", published("symmetric")), ("pairflip", published("pairflip"))):
        for row, cells in table.rows.items():
            found = best_published(Place(*row, kind))
            assert all(found.mean >= cell.mean for cell in cells)
            assert all(table.cell(*row, method).mean == found.mean for method in found.methods)
    assert best_published(Place("mnist-5k", 0.5)) is None


def test_pairflip_runs_are_not_mistaken_for_symmetric_ones():
    known = some_records(lambda cell: 90.0 if "pairflip" in cell.column else 60.0, AUTO)
    for row in auto_rows(Evidence(known, SCALE)):
        assert row.auto.mean == pytest.approx(90 if row.place.kind == "pairflip" else 60)


@pytest.mark.parametrize(("auto", "verdict"), [(89.8, "✔ holds"), (89.6, "✘ does not hold")])
def test_clean_labels_may_cost_no_more_than_three_tenths_of_a_point(auto, verdict):
    page = make(some_records(lambda cell: auto if cell.column == "auto" else 90.0, AUTO))
    for data in ("MNIST", "CIFAR-10"):
        assert line(page, f"| {data} | 90.0").endswith(f"| {verdict} |")


def test_ablation_shows_what_each_part_is_worth():
    less = {"auto": 0.0, "auto_untrusting": 5.0, "auto_unaveraged": 1.0, "auto_fixed": -2.0}
    known = some_records(lambda cell: 90 - less.get(cell.column.split()[0], 0), AUTO)
    page = make(known)
    assert line(page, "| CIFAR-10 pairflip 0.45 | 90.0") == (
        "| CIFAR-10 pairflip 0.45 | 90.0 ± 0.0 (2) | 85.0 ± 0.0 (2)<br>−5.00 "
        "| 89.0 ± 0.0 (2)<br>−1.00 | 92.0 ± 0.0 (2)<br>+2.00 |"
    )
    assert line(page, "| mean difference") == "| mean difference | | −5.00 | −1.00 | +2.00 |"
    assert {Place(*place) for place in ABLATED} <= set(DEVELOPMENT)  # as the page says


def test_stopping_rows_show_accuracy_and_epochs():
    known = some_records(
        lambda cell: 99.0 if cell.column == "auto" else 98.0,
        "table-stopping",
        AUTO,
        only=lambda cell: cell.row == ("mnist", 0.85),
    )
    page = make(known)
    assert line(page, "| MNIST symmetric 0.85 | 99.0 ± 0.0 (2) @50.0 | 98.0 ± 0.0 (2) @120.0<br>")
    assert "our VES in 1 of 1 rows; the paper's VES in 1 of 1 rows; our AES in 1 of 1" in page


def test_a_lost_row_says_what_was_tried():
    known = some_records(
        lambda cell: (
            paper_best(cell) if cell.column == "nll" else 20.0 if cell.row[0] == "cifar10" else 99.9
        ),
        "table-symmetric",
        "table-pairflip",
        AUTO,
        only=lambda cell: cell.row[1] and (cell.column == "nll" or cell.column.startswith("auto")),
    )
    page = make(known)
    lost = line(page, "- CIFAR-10 symmetric 0.8: 9.70 points below (seed by seed: 20.0, 20.0)")
    assert "A development row" in lost
    assert "With a part left out: auto without memory 20.0" in lost
    assert "First seen in these runs" in line(page, "- CIFAR-10 symmetric 0.65")
    assert not [text for text in page.splitlines() if text.startswith("- MNIST")]


def test_course_of_a_run_is_read_from_its_history():
    base = make_run("mnist", "auto", 0.5)

    def of(best, switched, outcome=""):
        record = hand_made(base, validation_loss=judged(50, best, switched))
        return course(replace(record, outcome=outcome))

    end = "all 50 epochs are done; cross-entropy until epoch 6, where the held-out loss turned"
    assert of(4, 9, end) == Course(best=4, kept=6, switched=9, cut_short=False, collapsed=False)
    end = "stopped at epoch 12: the loss collapsed: …; kept is its epoch 5"
    assert of(4, 9, end) == Course(best=4, kept=5, switched=9, cut_short=False, collapsed=True)
    assert of(24, 25) == Course(best=24, kept=24, switched=25, cut_short=True, collapsed=False)
    assert of(50, 50) == Course(best=50, kept=50, switched=None, cut_short=False, collapsed=False)
    assert course(hand_made(make_run("mnist", "auto_fixed", 0.5))) is None


def test_collapses_and_endless_warm_ups_are_counted():
    base = make_run("mnist", "auto", 0.5)
    known = [
        hand_made(base.with_seed(seed), validation_loss=judged(50, best, switched))
        for seed, (best, switched) in enumerate(((4, 9), (6, 11), (24, 25), (50, 50)))
    ]
    collapse = "stopped at epoch 12: the loss collapsed: …; kept is its epoch 5"
    known[0] = replace(known[0], outcome=collapse)
    page = make(known)
    assert line(page, "| MNIST symmetric 0.5 | 21.0 (4–50)") == (
        "| MNIST symmetric 0.5 | 21.0 (4–50) | 21.2 (5–50) | 15.0 (9–25) | 50 | 4 |"
    )
    assert "Of 4 runs, 1 collapsed; 1 stayed with cross-entropy throughout; in 1, two" in page


def test_held_out_losses_survive_results_and_older_files_can_still_be_read(tmp_path):
    record = hand_made(make_run("mnist", "auto", 0.5), validation_loss=judged(50, 4, 9))
    path = tmp_path / "auto.parquet"
    write_results(path, [record])
    assert course(read_results(tmp_path)[record.name]) == course(record)
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["history_validation_loss"]), path)
    (older,) = read_results(tmp_path).values()
    assert isinstance(older, Record)
    assert course(older) is None


def test_published_page_has_its_figure_and_is_the_same_again(tmp_path):
    few = some_records(lambda cell: 90.0, AUTO, only=lambda cell: cell.row[1] == 0.8, seeds=1)
    known = {record.name: record for record in few}
    written = publish([TARGETS[AUTO]], SCALE, known, Places.below(tmp_path))
    page = written.auto_page.read_text()
    assert written.auto_page == tmp_path / "docs/auto.md"
    for link in re.findall(r"\]\((figures/[^)]+)\)", page):
        assert (tmp_path / "docs" / link).stat().st_size > 5000
    assert "(figures/auto.png)" in page
    assert "$" not in page
    known |= read_results(tmp_path / "results")
    again = publish([], SCALE, known, Places.below(tmp_path))
    assert again.auto_page.read_text() == page


def test_a_try_out_has_no_score(tmp_path):
    scale = Scale(seeds=1, quick=True)
    run = TARGETS[AUTO].runs(scale)[0]
    record = hand_made(run, 0.9, validation_loss=judged(5, 2, 2))
    written = publish([TARGETS[AUTO]], scale, {record.name: record}, Places.below(tmp_path))
    page = written.auto_page.read_text()
    assert "This is a try-out" in page
    assert "Score" not in page
    assert line(page, "| MNIST-5k symmetric 0.5 | 90.0 (1) | – | – |")
    assert (tmp_path / "docs/figures/auto.png").exists()


def test_methods_given_the_rate_are_those_whose_recipe_has_it():
    given_it = {
        method for method in METHODS if make_run("mnist", method, 0.2).recipe.rate is not None
    }
    assert given_it == GIVEN_THE_RATE


@pytest.mark.parametrize("guard", [1e-10, 1e-8, 1e-6])
def test_stake_settles_at_the_cube_root_that_the_page_names(guard):
    rng = np.random.default_rng(0)
    for q in rng.dirichlet(np.ones(10), size=5):
        effective = 1 / (q @ q)

        def slope(log_stake, q=q, effective=effective):
            """Slope of the expected log-return, the payoff held constant."""
            stake = np.exp(log_stake)
            payoff = effective * (1 + guard / stake**2)
            return q @ ((q - 1 / payoff) / ((1 - stake) / payoff + stake * q))

        stake = np.exp(brentq(slope, np.log(1e-9), np.log(0.999)))
        variance = q @ (effective * q - 1) ** 2
        assert stake == pytest.approx((guard / variance) ** (1 / 3), rel=0.02)


def test_small_tables_stand_beside_each_other_where_they_were_run():
    rows = [
        {"set": "wine", "kind": "symmetric", "rate": rate, "method": method, "collapsed": 0,
         "accuracy": accuracy}
        for method, rate, accuracy in (
            ("nll", 0.0, [98.0, 99.0]),
            ("auto", 0.0, [98.5, 98.5]),
            ("nll", 0.4, [60.0, 70.0]),
            ("auto", 0.4, [80.0, 90.0]),
        )
    ]  # fmt: skip
    page = make_auto_page(Evidence([], SCALE), drawn=False, tables=rows)
    assert line(page, "| | clean |") == "| | clean | symmetric 0.4 |"
    assert line(page, "| wine |") == "| wine | **98.5** / **98.5** | 65.0 / **85.0** |"
    assert "mean over 2 seeds: nll / auto" in page
    assert "Of 8 trainings 0 collapsed" in page
    assert "Small tables" not in make_auto_page(Evidence([], SCALE), drawn=False)


COMMITTED = [
    record
    for record in read_results(Path(__file__).parents[1] / "results").values()
    if record.run.recipe.method == AUTO and course(record) is not None
]


def test_committed_runs_went_back_where_the_rule_of_today_would():
    assert len(COMMITTED) > 100
    for record in COMMITTED:
        went = course(record)
        judged = [
            record.history[f"validation_{name}"][: went.switched] for name in ("loss", "accuracy")
        ]
        # Classes are balanced. Of single samples nothing is kept: they are made to differ so much
        # from epoch to epoch that only the bound on the mean is left of what an epoch must hold.
        untaught = math.log(2 if record.run.data == "imdb" else 10)
        held_out = held_out_samples(BUILTIN[record.run.data].train)
        warm_up = WarmUp(record.run.recipe.epochs, untaught, held_out)
        kept = []
        for epoch, (loss, accuracy) in enumerate(zip(*judged, strict=True), start=1):
            assert not warm_up.ended
            if warm_up.update(torch.tensor([loss - epoch, loss + epoch]).double(), accuracy):
                kept.append(epoch)
        assert warm_up.ended
        assert warm_up.best_epoch == went.best
        assert went.kept in kept
