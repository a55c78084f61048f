"""README.md shows what `make demo` prints, but for how sums round on a machine."""

import re
from pathlib import Path

import pytest

from abstain import Recipe
from abstain.auditing.audit import audit

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.slow
def test_the_demo_finds_what_the_readme_says():
    found = audit("mnist-5k", Recipe.of("auto", flip=0.2))
    shown = re.search(
        r"(\d+) of which were given a wrong label.* about (\d+)% of them are wrong \(in truth "
        r"([\d.]+)%\) and flags (\d+) labels: ([\d.]+)% of these are wrong, and they are ([\d.]+)%",
        README.read_text(encoding="utf-8"),
    )
    planted, rate, truth, flagged, precision, recall = map(float, shown.groups())
    assert found.detection.wrong == planted
    assert 100 * found.detection.rate == pytest.approx(truth, abs=0.05)
    assert 100 * found.noise_rate.value == pytest.approx(rate, abs=1.5)
    assert found.flagged == pytest.approx(flagged, rel=0.05)
    assert 100 * found.detection.precision == pytest.approx(precision, abs=2)
    assert 100 * found.detection.recall == pytest.approx(recall, abs=1)
    assert found.planted[found.order[:100]].all()
