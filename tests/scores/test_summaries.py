"""Identical inputs and pairs of classes, against plain loops."""

import numpy as np
from hypothesis import given as forall
from hypothesis import strategies as st
from simulated import simulated_run

from abstain.scores.evidence import evidence_from_ledger
from abstain.scores.summaries import disagreeing_duplicates, pair_summary
from abstain.scores.verdict import judge


@forall(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), min_size=1, max_size=20))
def test_duplicates_against_a_loop(rows):
    prints, given = zip(*rows, strict=True)
    groups = []
    for name in dict.fromkeys(prints):
        members = [i for i, print_ in enumerate(prints) if print_ == name]
        if len({given[i] for i in members}) > 1:
            groups.append(members)
    found = disagreeing_duplicates(np.array(prints), np.array(given))
    got = [found.members[found.group == k].tolist() for k in range(len(found))]
    assert got == groups


def test_pairs_are_counted():
    ledger, given, _ = simulated_run(kind="pairflip", rate=0.3, classes=4)
    verdict = judge(evidence_from_ledger(ledger, given), given, 4)
    predicted, issues = verdict.predicted_label, verdict.is_label_issue
    pairs = pair_summary(predicted, given, issues)
    counts = np.zeros((4, 4), int)
    for i in np.flatnonzero(issues):
        if predicted[i] != given[i]:
            counts[given[i], predicted[i]] += 1
    assert pairs.count.sum() == counts.sum()
    assert (np.diff(pairs.count) <= 0).all()
    for g, p, n in zip(pairs.given, pairs.predicted, pairs.count, strict=True):
        assert counts[g, p] == n > 0
    # Class i was turned into i + 1: the four commonest pairs say so.
    assert {(g, p) for g, p in zip(pairs.given[:4], pairs.predicted[:4], strict=True)} == {
        ((i + 1) % 4, i) for i in range(4)
    }
    nothing = pair_summary(predicted, given, np.zeros(len(given), bool))
    assert len(nothing.count) == 0
