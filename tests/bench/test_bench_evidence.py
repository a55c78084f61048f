"""Tests of bench/evidence.py, and of what docs/backbones.md says of its results."""

from dataclasses import replace

import backbones_page
import cases
import evidence
import fit_verdict
import numpy as np
import pytest
import verdict
import verdict_page
from verdict_tables import Rows

TEXT = backbones_page.PAGE.read_text(encoding="utf-8")


def results():
    return verdict_page.read("evidence.json")


@pytest.fixture
def found():
    """Cases of three sources, from counts; heads see less of what is wrong than the training."""
    rng = np.random.default_rng(0)
    chosen = [x for x in fit_verdict.load() if x.is_real and x.kind == "ledger"]
    chosen = [x for x in chosen if x.source in ("convabuse", "politeness", "lidc_nodules")]
    made = []
    for counts in chosen:
        ledger, given, wrong = verdict.labels_from_counts(counts)
        odds = rng.normal(1 - 2 * wrong).astype(np.float32)
        heads = replace(ledger, log_odds=odds, memorised=0.0)
        made.append(evidence.Judged(counts.case, given, wrong, int(given.max()) + 1, ledger, heads))
    return made


def test_results_are_of_every_case_on_fixed_features_by_each_kind_of_evidence():
    rows = results()["cases"]
    expected = [x for x in cases.cases() if x.features != "network"]
    assert [x["case"] for x in rows] == [[x.name, x.features, x.noise] for x in expected]
    assert all(set(evidence.SHARES) < set(x) for x in rows)
    assert all(set(x["ledger"]) == set(evidence.FIGURES) for x in rows if x["case"][2] == "real")


def test_trainings_are_like_those_of_the_verdict():
    rows = {tuple(x["case"]): x for x in verdict_page.read("verdict.json")["cases"]}
    for x in results()["cases"]:
        if "auroc" in x["ledger"]:
            before = rows[tuple(x["case"])]["ledger"]["auroc"]
            assert x["ledger"]["auroc"] == pytest.approx(before, abs=0.01)


def test_a_share_of_one_is_the_training_and_of_none_the_heads(found):
    for one in found:
        for share, pure in ((1.0, one.ledger), (0.0, one.heads)):
            mixed = evidence.evidence(one, share)
            np.testing.assert_array_equal(mixed.log_odds, pure.log_odds)
            assert mixed.memorised == pure.memorised


def test_the_share_is_that_by_which_labels_are_wrong(found):
    rng = np.random.default_rng(0)
    by_share = []
    for one in found:
        log_odds = evidence.evidence(one, 0.7).log_odds
        by_share.append(replace(one, wrong=rng.logistic(size=len(log_odds)) > 1 + log_odds))
    assert evidence.learnt_share(by_share) == pytest.approx(0.7, abs=0.03)


def test_nothing_is_learnt_from_the_source_that_is_judged(found):
    rows, share = evidence.judged_without("convabuse", found)
    turned = [replace(x, wrong=~x.wrong) if x.source == "convabuse" else x for x in found]
    again, same_share = evidence.judged_without("convabuse", turned)
    assert share == same_share
    assert {x.name for x in rows} == {"convabuse"}
    truth = {x.case: x.wrong.mean() for x in found}
    for case, row in rows.items():
        for kind in evidence.SHARES:
            # The estimate is the same; what is right and wrong of it is swapped.
            error, swapped = row[kind]["error"], again[case][kind]["error"]
            assert abs(1 - 2 * truth[case] - swapped) == pytest.approx(error, abs=2e-4)


def beyond_chance(noises):
    """Kinds and figures that differ from the training by twice a standard error, with the sign."""
    group, found = Rows(results()["cases"]).of(*noises), {}
    for kind in (x for x in evidence.SHARES if x != "ledger"):
        for figure in backbones_page._COMPARED:
            by = -verdict_page.ahead(group, figure, kind)
            if abs(by.mean()) > 2 * verdict_page.error_of(by):
                found[kind, figure] = int(np.sign(by.mean()))
    return found


def test_the_page_says_which_evidence_is_better_beyond_chance():
    real = beyond_chance(["real"])
    assert real == {("heads", "ap"): -1, ("weighted", "auroc"): 1, ("weighted", "ap"): 1}
    planted = beyond_chance(["symmetric", "pairflip", "instance"])
    assert {("heads", x): -1 for x in ("error", "f1", "auroc", "ap")}.items() <= planted.items()
    assert planted["mean", "auroc"] == -1
    assert 1 not in planted.values()


def test_the_page_has_the_gain_and_the_weights_of_both():
    gain = -verdict_page.ahead(Rows(results()["cases"]).of("real"), "ap", "weighted").mean()
    assert f"by {gain:.4f} in average precision" in TEXT
    shares = results()["shares"].values()
    assert f"{100 * min(shares):.0f} to {max(shares):.0%} of the weight" in TEXT


def test_the_page_has_the_ranking_of_whole_audits():
    found = backbones_page._result("backbones")
    for kind, small in backbones_page._SMALL.items():
        rows = [x[small] for x in found["sets"].values() if x["kind"] == kind]
        each = ([x, x["out_of_sample"], x["both"]] for x in rows)
        means = np.mean([[x["auroc"] for x in kinds] for kinds in each], 0)
        words = {"image": "photos", "text": "texts"}[kind]
        assert "{:.3f}, {:.3f} and {:.3f} on ".format(*means) + words in TEXT
