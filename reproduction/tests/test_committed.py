"""Tests of what is committed: results with enough seeds, and the pages that follow from them."""

import json
import re
from pathlib import Path

import pytest

from reproduction.auto_page import make_auto_page
from reproduction.evidence import Evidence
from reproduction.page import make_page
from reproduction.parquet import read_results
from reproduction.targets import AUTO, TARGETS, Scale

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reproduction/results"
SCALE = Scale()
MAKE = "run: python -m reproduction --from reproduction/results"
# Of IMDB Co-teaching+ and AES as the authors ran them; of CIFAR-10 two of three seeds.
MISSING = {"differences": 24, "searched": 164}
PICTURES = [name for name in TARGETS if name.startswith("figure-")]


@pytest.fixture(scope="module")
def known():
    return list(read_results(RESULTS).values())


@pytest.fixture(scope="module")
def of_paper(known):
    own = [t.records(SCALE, known) for t in TARGETS.values() if t.name != AUTO]
    return Evidence(list({r.name: r for records in own for r in records}.values()), SCALE)


@pytest.mark.parametrize("name", TARGETS)
def test_no_run_is_missing(of_paper, known, name):
    evidence = Evidence(known, SCALE) if name == AUTO else of_paper
    assert evidence.missing(TARGETS[name]) == MISSING.get(name, 0)


@pytest.mark.parametrize("name", ["table-symmetric", "table-stopping", "table-pairflip"])
def test_cells_of_tables_have_three_seeds_and_five_on_mnist(of_paper, name):
    for cell in of_paper.cells(name):
        seeds = {r.run.seed for r in of_paper.records(name, cell.row, cell.column)}
        assert len(seeds) >= (5 if cell.row[0] == "mnist" else 3), (cell.row, cell.column)


def test_page_is_the_one_that_results_give(of_paper):
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    assert page == make_page(of_paper, PICTURES), MAKE
    pictures = re.findall(r"\]\((figures/[^)]+)\)", page)
    assert len(pictures) == len(PICTURES)
    assert all((ROOT / "docs" / picture).is_file() for picture in pictures)


def test_page_of_auto_is_the_one_that_results_give(known):
    own = [target.records(SCALE, known) for target in TARGETS.values()]
    everything = Evidence(list({r.name: r for rows in own for r in rows}.values()), SCALE)
    small = json.loads((RESULTS / "auto-tabular.json").read_text(encoding="utf-8"))["rows"]
    page = (ROOT / "docs/auto.md").read_text(encoding="utf-8")
    assert page == make_auto_page(everything, True, small), MAKE
