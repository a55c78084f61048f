"""The bisection for the critical payoff, with made-up runs."""

import pytest
from paper_runs import hand_made

from reproduction import critical
from reproduction.targets import TARGETS, Scale


def bisect(threshold, scale=Scale(seeds=2)):  # noqa: B008
    """Run the bisection on networks that learn above a threshold, which differs by seed."""
    target, known, rounds = TARGETS["figure-critical"], {}, 0
    while runs := [r for r in target.runs(scale, list(known.values())) if r.name not in known]:
        rounds += 1
        for run in runs:
            learns = run.recipe.payoff > threshold + 0.3 * run.seed
            known[run.name] = hand_made(run, accuracy=0.97 if learns else 0.1)
    return list(known.values()), rounds


def test_bisection_closes_in_on_the_critical_payoff_of_each_seed():
    scale = Scale(seeds=2)
    known, rounds = bisect(8.123)
    found = critical.brackets("mnist", 2, False, known)
    assert len(found) == 2 * len(critical.RATES)
    for bracket in found:
        assert bracket.closed
        assert bracket.high - bracket.low <= 0.01
        assert bracket.low <= 8.123 + 0.3 * bracket.seed <= bracket.high
    assert rounds == 9
    target = TARGETS["figure-critical"]
    assert len(known) == target.most_runs(scale)
    assert target.later_runs(scale, known) == 0
    assert len(target.records(scale, known)) == len(known)


def test_other_runs_are_no_steps_of_the_bisection():
    known, _ = bisect(8.123)
    others = [hand_made(r.run.with_payoff(9.5), 0.1) for r in known if r.run.recipe.epochs == 10]
    before = critical.brackets("mnist", 2, False, known)
    assert critical.brackets("mnist", 2, False, known + others) == before


@pytest.mark.parametrize("threshold", [4.0, 11.0])
def test_a_critical_payoff_out_of_range_ends_at_its_border(threshold):
    known, _ = bisect(threshold, Scale(seeds=1))
    for bracket in critical.brackets("mnist", 1, False, known):
        assert bracket.low == 5.0 or bracket.high == 10.0
