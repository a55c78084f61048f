"""Tests of page.py, published.py and remarks.py, with made-up runs."""

import re

import pytest
from paper_runs import hand_made

from reproduction.published import published
from reproduction.recipes import METHODS, SETTINGS, make_run
from reproduction.remarks import CAPTIONS
from reproduction.reproduce import Places, find_known, publish
from reproduction.targets import TARGETS, Scale
from reproduction.variants import VARIANTS

SCALE = Scale(seeds=2)
MNIST_RATES = (0.2, 0.5, 0.65, 0.8)


def some_records(*names):
    runs = [run for name in names for run in TARGETS[name].runs(SCALE)]
    return {run.name: hand_made(run, 0.9 + 0.01 * run.seed) for run in runs}


def written(tmp_path, known, *names):
    publish([TARGETS[name] for name in names], SCALE, known, Places.below(tmp_path))
    return (tmp_path / "docs" / "reproduction.md").read_text()


def test_page_shows_ours_beside_the_published_numbers(tmp_path):
    page = written(tmp_path, some_records("table-symmetric"), "table-symmetric")
    row = next(line for line in page.splitlines() if line.startswith("| MNIST r = 0.8 |"))
    assert row.split(" | ")[1] == "90.5 ± 0.7 (2)<br>*21.7 ± 0.6*"
    assert re.search(r"nll, r = 0.8 \| 21.7 ± 0.6 \|  \| 90\.\d ± \d\.\d \(2\) \|", page)
    assert "| IMDB r = 0.3 |" in page


def test_an_analytical_stop_that_never_stopped_is_named(tmp_path):
    cells = TARGETS["table-symmetric"].cells(SCALE)
    aes = {cell.row: cell.base for cell in cells if cell.column == "gamblers_aes"}
    stops = {("cifar10", 0.2): (100, 100), ("cifar10", 0.5): (99.9, 100), ("mnist", 0.2): (3, 4)}
    records = [
        hand_made(aes[row].with_seed(seed), 0.9, stop)
        for row, both in stops.items()
        for seed, stop in enumerate(both)
    ]
    page = written(tmp_path, {record.name: record for record in records}, "table-symmetric")
    (line,) = [line for line in page.splitlines() if line.startswith("Never stopped")]
    assert "end: gambler's, AES on CIFAR-10 at r = 0.2 (2 of 2 runs); gambler's, AES on" in line
    assert "at r = 0.5 (1 of 2 runs). The loss" in line
    assert "MNIST" not in line


def test_page_counts_the_numbers_that_come_out(tmp_path):
    """The gambler's column on MNIST: one as published, two met at payoff 9.9, one by nothing."""
    theirs = {rate: published("symmetric").cell("mnist", rate, "gamblers") for rate in MNIST_RATES}
    tried = {v.rate: v.run() for v in VARIANTS if v.column == "symmetric gamblers: payoff 9.9"}
    known = {}
    for rate, paper in theirs.items():
        off = 0.0 if rate == 0.2 else -0.2
        still = 0.2 if rate == 0.8 else 0.0
        for base, moved in ((make_run("mnist", "gamblers", rate), off), (tried[rate], still)):
            for run in (base, base.with_seed(1)):
                level = paper.mean / 100 + moved
                known[run.name] = hand_made(run, level, test_accuracy=[level] * 50)
    page = written(tmp_path, known, "table-symmetric", "differences")
    assert "**Of 4 numbers in its tables 3 agree or have a cause that was run**" in page
    assert "1 could be a run of ours, 2 a run with the authors' setting, and 0" in page
    assert "| gambler's, r = 0.5 | 80.8 ± 0.5 |  | 60.8 ± 0.1 (2) | 80.8 ± 0.1 (2) " in page
    assert "| ✔ as they ran it: payoff 9.9 |" in page
    assert "✘ open; tried: payoff 9.9 (66.7)" in page
    assert "numbers in its tables" not in written(tmp_path / "none", {})


def test_captions_name_the_settings_that_are_run():
    mnist, cifar, imdb = (SETTINGS[data] for data in ("mnist", "cifar10", "imdb"))
    words = CAPTIONS["table-symmetric"]
    assert f"{mnist.epochs} epochs on MNIST and {cifar.epochs} elsewhere" in words
    assert f"begins with {cifar.first} of cross-entropy" in words
    assert f"({mnist.first_guarded} on MNIST, {cifar.first_guarded} elsewhere)" in words
    assert (mnist.first, cifar.epochs, cifar.first, cifar.first_guarded) == (
        0, imdb.epochs, imdb.first, imdb.first_guarded
    )  # fmt: skip


def test_what_was_not_run_is_a_dash_with_the_way_to_run_it(tmp_path):
    known = some_records("figure-stages")
    page = written(tmp_path, known, "figure-stages")
    assert "| MNIST r = 0.2 | –<br>*95.1 ± 0.4 @95* | –<br>*98.8 ± 0.1 @17* | – |" in page
    assert "`python -m reproduction table-pairflip --seeds 2`" in page
    assert "– not run" in page
    assert "figures/stages.png" in page
    assert "figures/schedules.png" not in page.replace("figure-", "")


def test_pages_and_figures_are_made_again_from_results_alone(tmp_path):
    names = ("table-stopping", "figure-rejection", "figure-stopping", "figure-learnability")
    first = written(tmp_path / "a", some_records(*names), *names)
    known = find_known(tmp_path / "a" / "results")
    assert written(tmp_path / "b", known, *names) == first
    pictures = {path.name for path in (tmp_path / "b/docs/figures").iterdir()}
    assert {"rejection.png", "stopping.png", "learnability.png"} <= pictures
    for name in names:
        file = f"results/{name}.parquet"
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_every_link_of_the_page_leads_somewhere(tmp_path):
    page = written(tmp_path, some_records(*TARGETS), *TARGETS)
    links = re.findall(r"\]\((figures/[^)]+)\)", page)
    assert len(links) == 7
    for link in links:
        assert (tmp_path / "docs" / link).stat().st_size > 5000


def test_our_own_method_is_linked_but_not_counted_among_the_runs_of_the_paper(tmp_path):
    known = some_records("figure-stages", "auto")
    page = written(tmp_path, known, "figure-stages", "auto")
    assert "](auto.md)" in page
    assert "python -m reproduction auto" not in page
    # The two of the figure, and no more.
    assert "by `python -m reproduction --from reproduction/results`. 2 runs over 2 seeds" in page


def test_other_seeds_of_a_cell_are_shown_too(tmp_path):
    run = TARGETS["figure-stages"].runs(SCALE)[0]
    known = {r.name: r for r in (hand_made(run.with_seed(seed), 0.9) for seed in (0, 1, 7))}
    page = written(tmp_path, known, "figure-stages")
    assert "90.0 ± 0.0 (3)" in page


def test_every_column_and_target_has_words():
    assert set(CAPTIONS) == set(TARGETS)
    for table in ("symmetric", "early_stopping", "pairflip"):
        assert set(published(table).columns) <= set(METHODS)


@pytest.mark.parametrize("table", ["symmetric", "early_stopping", "pairflip"])
def test_published_numbers_are_percentages(table):
    rows = published(table).rows
    assert all(9 < cell.mean < 100 and cell.spread < 6 for row in rows.values() for cell in row)


def test_every_variant_is_of_a_cell_that_the_paper_has_and_changes_it():
    tables = {"symmetric": "table-symmetric", "early_stopping": "table-stopping"}
    for variant in VARIANTS:
        row = variant.data, variant.rate
        assert published(variant.table).cell(*row, variant.method) is not None
        target = TARGETS[tables.get(variant.table, "table-pairflip")]
        usual = next(
            c.base for c in target.cells(SCALE) if (c.row, c.column) == (row, variant.method)
        )
        assert variant.run().cell != usual.cell
    assert len({v.run().cell for v in VARIANTS}) == len(VARIANTS)
