from pathlib import Path

import pytest

from reproduction.auto_evidence import KINDS, Place, auto_records
from reproduction.evidence import Evidence, summary
from reproduction.parquet import read_results
from reproduction.targets import Scale

ROOT = Path(__file__).parents[2]
ROWS = {
    "MNIST, 20% wrong": Place("mnist", 0.2, "symmetric"),
    "MNIST, 50%": Place("mnist", 0.5, "symmetric"),
    "MNIST, 80%": Place("mnist", 0.8, "symmetric"),
    "MNIST, 45% to the next class": Place("mnist", 0.45, "pairflip"),
    "CIFAR-10, 50%": Place("cifar10", 0.5, "symmetric"),
    "CIFAR-10, 80%": Place("cifar10", 0.8, "symmetric"),
    "IMDB, 20%": Place("imdb", 0.2, "symmetric"),
}
METHODS = ("nll", "lq", "gamblers", "schedule", "coteaching_plus", "gamblers_aes")


@pytest.fixture(scope="module")
def evidence():
    return Evidence(list(read_results(ROOT / "reproduction/results").values()), Scale())


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_the_readme_are_those_of_the_results(evidence, name):
    place = ROWS[name]
    stats = [evidence.stat(KINDS[place.kind], place[:2], method) for method in METHODS]
    stats.append(summary(auto_records(evidence, place)))
    cells = ["–" if s is None else f"{s.mean:.1f} ± {s.spread:.1f}" for s in stats]
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {name} |")]
    assert line == f"| {name} | {' | '.join(cells)} |"
