"""The verdict on three stored ledgers, pinned to six digits: a refactoring must not move it.

After a change of the learnt numbers, run `python tests/scores/test_verdict_golden.py` to write the
figures anew, and say in the commit what moved.

Tests of verdict.py, apart because they compare with stored figures.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from abstain.scores.evidence import Evidence
from abstain.scores.verdict import judge

PLACE = Path(__file__).parent / "golden"
FIGURES = PLACE / "figures.json"
NAMES = sorted(path.stem for path in PLACE.glob("*.npz"))


def figures(name):
    with np.load(PLACE / f"{name}.npz") as kept:
        odds, given = kept["log_odds"].astype(np.float32), kept["given"].astype(np.int64)
        evidence = Evidence(
            log_odds=odds,
            rival=kept["rival"].astype(np.int32),
            rival_share=np.ones_like(odds),
            memorised=float(kept["memorised"]),
            abstention=np.full_like(odds, np.nan),
        )
    classes = int(max(given.max(), evidence.rival.max())) + 1
    before = judge(evidence, given, classes)
    # Of the 20 worst, every other one was found to be wrong.
    worst = before.order[:20].tolist()
    answers = {k: int(evidence.rival[k] if i % 2 else given[k]) for i, k in enumerate(worst)}
    after = judge(evidence, given, classes, answers)
    found = {}
    for when, verdict in (("before", before), ("after", after)):
        rate, review = verdict.rate, verdict.expected_wrong(50)
        found[when] = {
            "rate": [rate.value, rate.low, rate.high],
            "review": [review.value, review.low, review.high],
            "flagged": int(verdict.is_label_issue.sum()),
            "worst": verdict.order[:10].tolist(),
            "classes": [x.value for x in verdict.per_class],
            "stays": np.diagonal(verdict.transition).tolist(),
        }
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_is_what_it_was(name):
    recorded = json.loads(FIGURES.read_text())[name]
    for when, expected in recorded.items():
        found = figures(name)[when]
        assert found.keys() == expected.keys()
        for figure, value in expected.items():
            assert found[figure] == pytest.approx(value, rel=1e-6, abs=1e-6), (when, figure)


def test_there_are_three():
    assert len(NAMES) == 3


if __name__ == "__main__":
    FIGURES.write_text(json.dumps({name: figures(name) for name in NAMES}, indent=1) + "\n")
