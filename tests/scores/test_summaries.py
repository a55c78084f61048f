import numpy as np
from hypothesis import given as forall
from hypothesis import strategies as st
from simulated import simulated_run

from abstain.scores.label_quality import label_quality
from abstain.scores.summaries import class_summary, disagreeing_duplicates, pair_summary


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


def test_pairs_and_classes_are_counted():
    ledger, given, _ = simulated_run(kind="pairflip", rate=0.3, classes=4)
    quality = label_quality(ledger, given)
    issues = quality.label_score < 0.5
    pairs = pair_summary(quality, given, issues)
    counts = np.zeros((4, 4), int)
    for i in np.flatnonzero(issues):
        if quality.predicted_label[i] != given[i]:
            counts[given[i], quality.predicted_label[i]] += 1
    assert pairs.count.sum() == counts.sum()
    assert (np.diff(pairs.count) <= 0).all()
    for g, p, n in zip(pairs.given, pairs.predicted, pairs.count, strict=True):
        assert counts[g, p] == n > 0
    # Class i was turned into i + 1: the four commonest pairs say so.
    assert {(g, p) for g, p in zip(pairs.given[:4], pairs.predicted[:4], strict=True)} == {
        ((i + 1) % 4, i) for i in range(4)
    }
    classes = class_summary(quality, given, issues, 5)
    assert classes.given.tolist() == np.bincount(given, minlength=5).tolist()
    assert classes.issues.tolist() == np.bincount(given[issues], minlength=5).tolist()
    assert classes.wanted.sum() == issues.sum()
    nothing = pair_summary(quality, given, np.zeros(len(given), bool))
    assert len(nothing.count) == 0
