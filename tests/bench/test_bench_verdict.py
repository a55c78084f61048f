"""The page docs/audit-bench.md shows what the committed results give; sources are left out."""

import doctest
from dataclasses import fields, replace

import cases
import fit_verdict
import numpy as np
import pytest
import verdict
import verdict_page
import verdict_tables
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from abstain.scores.curve import Learnt
from abstain.scores.interval import Interval


@pytest.fixture(scope="module")
def counts():
    return fit_verdict.load()


@pytest.fixture(scope="module")
def results():
    return verdict_page.read("verdict.json")


def numbers(learnt):
    return [getattr(learnt, x.name) for x in fields(Learnt)]


def test_page_is_what_the_committed_results_give():
    assert verdict_page.PAGE.read_text(encoding="utf-8") == verdict_page.text()


def test_committed_numbers_are_learnt_from_the_committed_counts(counts):
    found = fit_verdict.learnt_from(counts)
    np.testing.assert_allclose(numbers(Learnt.load()), numbers(found), atol=1e-3)


def test_results_are_of_the_committed_numbers_and_of_every_case(results):
    assert list(results["learnt"].values()) == numbers(Learnt.load())
    found = [tuple(x["case"]) for x in results["cases"]]
    assert found == [(x.name, x.features, x.noise) for x in cases.cases()]


def test_moving_a_number_does_what_is_recorded(results):
    recorded = {(name, by): rest for name, by, *rest in results["sensitivity"]}
    for name, by in (("none", 0.0), ("log_slope", 0.2), ("class_spread", -0.2)):
        learnt = Learnt.load() if name == "none" else verdict.moved(Learnt.load(), name, by)
        np.testing.assert_allclose(verdict.effect(learnt), recorded[name, by], atol=2e-3)


def test_each_number_moved_by_a_fifth_changes_what_is_recorded(results):
    """But the spread of classes: it widens intervals of classes, by less than the figures show."""
    recorded = {(name, by): rest for name, by, *rest in results["sensitivity"]}
    for name in (x.name for x in fields(Learnt) if x.name != "class_spread"):
        assert recorded[name, -0.2] != recorded[name, 0.2]


def test_slope_itself_is_moved_not_its_log():
    learnt = Learnt.load()
    slope = np.exp(verdict.moved(learnt, "log_slope", 0.2).log_slope - learnt.log_slope)
    assert slope == pytest.approx(1.2)
    assert verdict.moved(learnt, "intercept", -0.2).intercept == 0.8 * learnt.intercept


def test_left_out_numbers_do_not_see_the_source(counts, monkeypatch):
    before = fit_verdict.left_out("wine"), fit_verdict.left_out("agnews")
    changed = tuple(
        replace(x, by_class=x.by_class[:, ::-1]) if x.source == "agnews" else x for x in counts
    )
    assert {x.case.name for x in counts if x.source == "agnews"} == {"weak_agnews", "noisyag"}
    monkeypatch.setattr(fit_verdict, "load", lambda path: changed)
    left_out = fit_verdict.left_out.__wrapped__
    assert left_out("agnews") == before[1]
    assert left_out("wine") != before[0]


def test_cases_have_names_of_their_own():
    found = [x.file for x in cases.cases()]
    assert len(set(found)) == len(found) == 256


def test_variants_of_a_source_leave_together():
    assert cases.source_of("weak_agnews") == cases.source_of("noisyag")
    assert cases.source_of("mnist_5k") == cases.source_of("digits")
    assert len({cases.source_of(x) for x in cases.PHOTOS}) == 1
    assert cases.source_of("wine") == "wine"
    assert len({cases.source_of(x.name) for x in cases.cases()}) == 17


def test_figures_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    badness, wrong = rng.integers(20, size=200) / 20, rng.random(200) < 0.3
    flags = badness > 0.6
    found = verdict.figures(wrong, 0.25, flags, badness)
    assert found["error"] == pytest.approx(abs(0.25 - wrong.mean()), abs=1e-4)
    assert found["f1"] == pytest.approx(f1_score(wrong, flags), abs=1e-4)
    assert found["auroc"] == pytest.approx(roc_auc_score(wrong, badness), abs=1e-4)
    assert found["ap"] == pytest.approx(average_precision_score(wrong, badness), abs=1e-4)


def test_figures_that_true_labels_do_not_have_are_left_out():
    found = verdict.figures(np.zeros(4, bool), 0.1, np.arange(4) == 0, np.arange(4))
    assert found == {"rate": 0.1, "error": 0.1, "flagged": 0.25}


def test_an_interval_that_misses_pays_twenty_times_the_distance():
    interval = Interval(value=0.2, low=0.1, high=0.3)
    assert verdict.interval_figures(interval, 0.1)["score"] == pytest.approx(0.2)
    assert verdict.interval_figures(interval, 0.05)["score"] == pytest.approx(0.2 + 1.0)


def test_labels_from_counts_have_the_counts(counts):
    case = next(x for x in counts if x.is_real)
    evidence, given, wrong = verdict.labels_from_counts(case)
    again = fit_verdict.count(case.case, case.kind, evidence, given, wrong)
    np.testing.assert_array_equal(again.by_class, case.by_class)


@pytest.mark.parametrize("module", [cases, verdict, verdict_page, verdict_tables])
def test_examples_of_the_bench(module):
    assert doctest.testmod(module).failed == 0
