"""The figures after answers are those of plain loops; results hold every case, before and now."""

import json

import cases
import numpy as np
import pytest
import reviews
from verdict_details import after_answers, rows_of

from abstain.scores.curve import Learnt
from abstain.scores.evidence import Evidence
from abstain.scores.verdict import judge


def two_pairs():
    """Half of 1,000 labels are 0 → 1, most of which are wrong; of 2 → 3 hardly any is."""
    rng = np.random.default_rng(0)
    given = np.repeat([0, 2], 500)
    odds = rng.normal(0, 1.5, 1000).astype(np.float32)
    true = given + (rng.random(1000) < np.where(given == 0, 0.8, 0.05))
    evidence = Evidence(
        log_odds=odds,
        rival=(given + 1).astype(np.int32),
        rival_share=np.ones_like(odds),
        memorised=0.0,
        abstention=np.full_like(odds, np.nan),
    )
    return evidence, given, true


def test_reviews_find_the_pair_of_which_most_labels_are_wrong(monkeypatch):
    monkeypatch.setattr(reviews, "left_out", lambda source: Learnt.load())
    lines = list(reviews.lines_of(("wine", "all", "real"), *two_pairs()))
    rows = rows_of(
        {"columns": ["name", "features", "noise", "way", "reviews", *reviews.FIGURES], "x": lines},
        "x",
    )
    assert [(x["way"], x["reviews"]) for x in rows] == [
        (way, size) for way in ("random", "worst", "mixed") for size in reviews.SIZES
    ]
    last = next(x for x in rows if (x["way"], x["reviews"]) == ("worst", 400))
    odds, true = two_pairs()[0].log_odds, two_pairs()[2]
    alone = (true != two_pairs()[1])[np.argsort(odds)[:400]].sum()
    assert last["found"] > alone


def test_figures_are_of_the_labels_still_open():
    evidence, given, true = two_pairs()
    wrong, rows = given != true, np.arange(0, 1000, 10)
    before = judge(evidence, given, 4)
    answers = dict(zip(rows.tolist(), true[rows].tolist(), strict=True))
    after = judge(evidence, given, 4, answers)
    found = dict(zip(reviews.FIGURES, reviews.figures_of(before, after, wrong), strict=True))
    left = [k for k in range(1000) if k % 10]
    p = [float(after.wrong_probability[k]) for k in left]
    assert found["found"] == sum(wrong[k] for k in rows)
    assert found["bias"] == pytest.approx(np.mean(p) - wrong[left].mean(), abs=1e-5)
    losses = [-np.log(x if wrong[k] else 1 - x) for x, k in zip(p, left, strict=True)]
    assert found["log_loss"] == pytest.approx(np.mean(losses), abs=1e-4)


def test_results_hold_every_real_case_on_fixed_features_before_and_now():
    result = json.loads(reviews.RESULTS.read_text(encoding="utf-8"))
    fixed = {
        (x.name, x.features, x.noise)
        for x in cases.cases()
        if x.features != "network" and x.noise == "real"
    }
    for which in ("before", "cases"):
        rows = rows_of(result, which)
        found = {(x["name"], x["features"], x["noise"]) for x in rows}
        assert {x for x in found if x[2] == "real"} <= fixed
        assert {x[0] for x in fixed - found} <= {"lidc_nodules", "wine"}  # at most 400 labels
        assert {x[2] for x in found - fixed} == {f"confused {reviews.CONFUSED}"}
    means = after_answers(rows_of(result, "cases"), "real", "worst", 200)
    assert 100 < means["found"] < 200
