"""The comparison of two orders is fair: same answers, one differs from the other only by shifts."""

import json

import cases
import numpy as np
import pytest
import rerank
from verdict_details import by_source, gain_of

from abstain.scores.curve import Learnt
from abstain.scores.evidence import Evidence


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


def test_shifts_find_more_where_one_pair_is_wrong(monkeypatch):
    monkeypatch.setattr(rerank, "left_out", lambda source: Learnt.load())
    lines = list(rerank.lines_of(("wine", "all", "real"), *two_pairs()))
    columns = ["name", "features", "noise", "way", "reviews"]
    columns += [f"{x}_{how}" for how in ("alone", "shifted") for x in rerank.COLUMNS]
    rows = [dict(zip(columns, x, strict=True)) for x in lines]
    assert [(x["way"], x["reviews"]) for x in rows] == [
        *(("worst", size) for size in rerank.SIZES),
        ("random", rerank.RANDOM),
    ]
    last = rows[3]
    assert last["found_alone"] < 220
    assert last["found_shifted"] > 280
    assert last["ap_shifted"] > last["ap_alone"] + 0.1
    assert rows[4]["found_alone"] is None


def test_results_hold_every_case_on_fixed_features():
    result = json.loads(rerank.RESULTS.read_text(encoding="utf-8"))
    rows = [dict(zip(result["columns"], x, strict=True)) for x in result["cases"]]
    found = {(x["name"], x["features"], x["noise"]) for x in rows}
    fixed = {(x.name, x.features, x.noise) for x in cases.cases() if x.features != "network"}
    assert {x for x in fixed - found if x[0] != "wine"} == set()  # wine has fewer than 400 labels
    assert {x[2] for x in found - fixed} == {f"confused {rerank.CONFUSED}"}
    values = by_source(rows, "real", "worst", 200, "found")
    assert len(values) == 13
    gain, _ = gain_of(rows, "real", "worst", 200, "found")
    assert gain == pytest.approx((values[:, 1] - values[:, 0]).mean())
