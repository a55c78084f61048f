"""Which answers measure the noise rate: those of a random sample, as far as it was checked.

Tests of findings.py, and of verified.py, which counts them.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from abstain.auditing.answers import DROP, UNSURE, Answer
from abstain.auditing.audit import audit
from abstain.auditing.findings import Findings
from abstain.auditing.folder import AuditFolder
from abstain.exporting.to_check import export_sample
from abstain.scores.evidence import Evidence
from abstain.scores.sampling import Sample, answers_needed, draw, measured_rate, wrong_unchecked

from audits import answer, rows_of, truth_of


def test_reviews_chosen_by_hand_do_not_pass_for_a_random_sample(found, tmp_path):
    truth = truth_of(found)
    export_sample(AuditFolder.open(found.folder), tmp_path / "to-check.csv", 60)  # never answered
    worst = [found.data.ids[k] for k in found.order[:40].tolist()]
    knows = found.with_reviewed({id_: truth[id_] for id_ in worst[:20]})
    assert knows.measured is None
    assert "Of a random sample 0 labels were checked." in knows.caution
    assert knows.confidence == 0.9
    assert knows.summary()["reviewed"] == 20
    basis = "estimated from the labels, 20 of them reviewed"
    assert knows.summary()["left_wrong"]["basis"] == basis
    # Nor once the sample is answered in part: beyond the last answer they are no part of it.
    drawn = [row["id"] for row in rows_of(tmp_path / "to-check.csv")]
    both = knows.with_reviewed({id_: truth[id_] for id_ in worst})
    both = both.with_reviewed({id_: truth[id_] for id_ in drawn[:35]})
    assert both.findings.verified.counted == 35
    assert both.measured.low <= found.detection.rate <= both.measured.high
    # Together in one table, nobody knows for which reason a label was chosen.
    mixed = found.with_reviewed({id_: truth[id_] for id_ in {*worst, *drawn}})
    assert mixed.measured is None
    assert found.verdict.is_reviewed.sum() == 0  # a new verdict; the old one stays
    assert knows.left_wrong.high <= len(found.data) - 20


def test_a_few_answers_do_not_take_the_place_of_the_estimate(found, tmp_path):
    export_sample(AuditFolder.open(found.folder), tmp_path / "to-check.csv", 60)
    answer(tmp_path / "to-check.csv", truth_of(found), 29)
    few = found.with_reviewed(tmp_path / "to-check.csv")
    assert few.measured is None
    assert "Of a random sample 29 labels were checked." in few.caution
    answer(tmp_path / "to-check.csv", truth_of(found), 30)
    assert found.with_reviewed(tmp_path / "to-check.csv").findings.verified.counted == 30


def test_measured_intervals_cover_also_beside_worst_first_reviews():
    """On a population of 3,000: 100 labels of a sample, and the 300 worst reviewed before."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, 3000)
    wrong = rng.random(3000) < 0.15
    given = np.where(wrong, 1 - true, true)
    p = np.clip(0.7 * np.eye(2)[true] + 0.15 + 0.3 * rng.normal(size=(3000, 1)) * [1, -1], 0.01, 1)
    found = audit((rng.normal(size=(3000, 1)), given), probabilities=p / p.sum(1, keepdims=True))
    names = np.array(found.data.classes)[true]
    worst = {str(k): names[k] for k in found.order[:300].tolist()}
    knows, covered = found.with_reviewed(worst), []
    for seed in range(60):
        sample = draw(found.verdict.wrong_probability, 150, np.random.default_rng(seed))
        rows = sample.rows[:100].tolist()  # the last fifty are never looked at
        first = Sample(rows=sample.rows[:100], stratum=sample.stratum[:100], sizes=sample.sizes)
        checked = knows.with_reviewed({str(k): names[k] for k in rows}, sample=first)
        assert checked.findings.verified.counted == 100
        covered.append(wrong.mean() in checked.measured)
    assert np.mean(covered) > 0.9


def test_answers_that_were_filled_in_for_the_reviewer_are_not_new(found, tmp_path):
    """The worst are reviewed, the sample hands them out filled in, and half of it is answered."""
    truth = truth_of(found)
    worst = [found.data.ids[k] for k in found.order[:50].tolist()]
    knows = found.with_reviewed({id_: truth[id_] for id_ in worst})
    knows.write(found.folder)
    export_sample(AuditFolder.open(found.folder), tmp_path / "to-check.csv", 100)
    answer(tmp_path / "to-check.csv", truth, 40)
    drawn = [row["id"] for row in rows_of(tmp_path / "to-check.csv")]
    assert set(drawn[40:]) & set(worst)  # known, and beyond what anybody went through
    last = max(k for k in range(40) if drawn[k] not in worst)
    assert knows.with_reviewed(tmp_path / "to-check.csv").findings.verified.counted == last + 1


def test_the_worst_of_a_set_that_was_handed_out_whole_are_no_sample(found, tmp_path):
    truth = truth_of(found)
    export_sample(AuditFolder.open(found.folder), tmp_path / "to-check.csv", 150)
    worst = [found.data.ids[k] for k in found.order[:60].tolist()]
    assert found.with_reviewed({id_: truth[id_] for id_ in worst}).measured is None
    one_by_one = found
    for id_ in worst[:40]:
        one_by_one = one_by_one.with_reviewed({id_: truth[id_]})
    assert one_by_one.measured is None


def test_a_sample_that_was_enlarged_meanwhile_counts_whole(found, tmp_path):
    path, truth = tmp_path / "to-check.csv", truth_of(found)
    export_sample(AuditFolder.open(found.folder), path, 40)
    answer(path, truth)
    knows = found.with_reviewed(path)
    export_sample(AuditFolder.open(found.folder), tmp_path / "larger.csv", 90)
    answer(tmp_path / "larger.csv", truth)
    larger = knows.with_reviewed(tmp_path / "larger.csv")
    assert knows.findings.verified.counted == 40
    assert larger.findings.verified.counted == 90


CLASSES = ("right", "wrong")


def population(seed, size=400):
    """Labels, all given as `right`; which of them are wrong; and a random sample of all."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(1.5, 2, size).astype(np.float32)
    wrong = rng.random(size) < 1 / (1 + np.exp(odds + 0.5))
    evidence = Evidence(
        log_odds=odds,
        rival=np.ones(size, np.int32),
        rival_share=np.ones(size, np.float32),
        memorised=0.0,
        abstention=np.full(size, np.nan, np.float32),
    )
    sample = draw(1 / (1 + np.exp(odds)), size, rng)
    return evidence, np.zeros(size, np.int64), wrong, sample


def first(sample, size):
    return Sample(rows=sample.rows[:size], stratum=sample.stratum[:size], sizes=sample.sizes)


def answers_of(wrong, rows):
    return {row: Answer("label", CLASSES[int(wrong[row])]) for row in rows}


def test_a_measured_rate_holds_whatever_the_unsure_and_dropped_ones_are():
    evidence, given, wrong, sample = population(0)
    rows = sample.rows[:50].tolist()
    answers = answers_of(wrong, rows)
    without = rows[3:9]
    answers |= dict.fromkeys(without[:3], UNSURE) | dict.fromkeys(without[3:], DROP)
    found = Findings.of(evidence, given, CLASSES, answers, first(sample, 50), set(rows))
    assert (found.verified.counted, found.verified.unsure, found.verified.dropped) == (44, 3, 3)
    assert found.basis.endswith("50 labels checked at random, 3 of them unsure, 3 of them dropped")
    ends = []
    for truth in product([False, True], repeat=6):
        is_wrong = wrong[rows].copy()
        is_wrong[3:9] = truth
        rate = measured_rate(sample.stratum[:50], is_wrong, sample.sizes, 0.95)
        ends.append((rate.low, rate.high))
    lows, highs = zip(*ends, strict=True)
    assert found.measured.low == pytest.approx(min(lows))
    assert found.measured.high == pytest.approx(max(highs))
    assert found.measured.low <= found.measured.value <= found.measured.high


@forall(
    st.integers(0, 2**16),
    st.lists(st.tuples(st.integers(0, 59), st.sampled_from([UNSURE, DROP, None])), max_size=6),
)
@settings(max_examples=25, deadline=None)
def test_a_measured_rate_holds_whatever_the_skipped_ones_are(seed, without):
    """Brute force: all that may be true of samples without a class, also of those skipped."""
    evidence, given, wrong, sample = population(seed)
    rows = sample.rows[:61].tolist()
    answers = answers_of(wrong, rows)
    places = dict(without)
    for place, kind in places.items():
        del answers[rows[place]]
        if kind is not None:
            answers[rows[place]] = kind
    skipped = sum(kind is None for kind in places.values())
    found = Findings.of(evidence, given, CLASSES, answers, first(sample, 61), set(answers))
    if found.verified.waiting:  # skipped at the very beginning: more than one in ten
        return
    assert found.verified.skipped == skipped
    assert found.basis.endswith(f", {skipped} skipped") == (skipped > 0)
    ends = []
    for truth in product([False, True], repeat=len(places)):
        is_wrong = wrong[rows].copy()
        is_wrong[list(places)] = truth
        rate = measured_rate(sample.stratum[:61], is_wrong, sample.sizes, 0.95)
        ends.append((rate.low, rate.high))
    lows, highs = zip(*ends, strict=True)
    assert found.measured.low == pytest.approx(min(lows))
    assert found.measured.high == pytest.approx(max(highs))


def test_whoever_skips_the_wrong_ones_does_not_lower_the_rate():
    evidence, given, wrong, sample = population(4, 3000)
    rows = sample.rows[:480].tolist()
    skipped = set([row for row in rows[20:] if wrong[row]][:45])
    answers = answers_of(wrong, [row for row in rows if row not in skipped])
    found = Findings.of(evidence, given, CLASSES, answers, first(sample, 480), set(answers))
    assert found.verified.skipped > 40
    assert found.measured.low <= wrong.mean() <= found.measured.high
    assert found.halved_by is None
    assert "skipped" in found.verified.why


def test_answers_without_a_class_do_not_make_a_measured_rate():
    evidence, given, wrong, sample = population(1)
    rows = sample.rows[:36].tolist()
    answers = answers_of(wrong, rows) | dict.fromkeys(rows[:4], UNSURE)
    answers |= dict.fromkeys(rows[4:7], DROP)
    found = Findings.of(evidence, given, CLASSES, answers, first(sample, 100), set(rows))
    assert found.measured is None
    assert (found.verified.counted, found.verified.missing) == (29, 1)
    more = sample.rows[36]
    answers |= answers_of(wrong, [more])
    assert Findings.of(
        evidence, given, CLASSES, answers, first(sample, 100), {*rows, more}
    ).measured
    # Beyond too many samples without an answer, answers wait.
    for row in rows[7:17]:
        del answers[row]
    waits = Findings.of(evidence, given, CLASSES, answers, first(sample, 100), {*rows, more})
    assert (waits.verified.waiting, waits.verified.gaps) == (20, 10)
    assert "waiting for 10 samples before them: 20 answers" in waits.verified.why


def test_without_dropped_samples_what_is_left_is_the_rate_less_what_was_found():
    evidence, given, wrong, sample = population(2)
    rows, worst = sample.rows[:60].tolist(), np.argsort(evidence.log_odds)[:50].tolist()
    answers = answers_of(wrong, {*rows, *worst})
    found = Findings.of(evidence, given, CLASSES, answers, first(sample, 60), set(rows))
    assert found.left_wrong == wrong_unchecked(found.rate, 400, len(answers), found.found_wrong)
    assert found.rate_left.value < found.rate.value
    assert found.rate_left.high < found.rate.high
    assert found.halved_by == answers_needed(60, 400)
    answers[rows[0]] = UNSURE  # no number of other answers makes this one narrower
    assert Findings.of(evidence, given, CLASSES, answers, sample, set(rows)).halved_by is None


@pytest.mark.parametrize("shift", [-2.0, 0.0, 2.0])
def test_classes_and_budgets_add_up_to_the_measured_rate(shift):
    """Also where many more, or many fewer, labels are wrong than the evidence says."""
    evidence, _, _, sample = population(3, 2000)
    rng = np.random.default_rng(3)
    given = rng.integers(0, 2, 2000)
    wrong = rng.random(2000) < 1 / (1 + np.exp(evidence.log_odds + shift))
    rows, worst = sample.rows[:100].tolist(), np.argsort(evidence.log_odds)[:50].tolist()
    answers = {
        row: Answer("label", CLASSES[int(given[row] ^ wrong[row])]) for row in [*rows, *worst]
    }
    found = Findings.of(evidence, given, CLASSES, answers, first(sample, 100), set(rows))
    assert found.measured
    sizes = np.bincount(given)
    shares = [rate.value for rate in found.per_class]
    assert np.average(shares, weights=sizes) == pytest.approx(found.rate.value)
    every = found.expected_wrong(found.verdict.to_check)
    ends = (every.value, every.low, every.high)
    left = found.left_wrong
    assert ends == pytest.approx((left.value, left.low, left.high))
    for budget in (0, 10, 100, 1000):
        part = found.expected_wrong(budget)
        assert 0 <= part.low <= part.value <= part.high <= min(budget, left.high)
        assert part.value <= left.value + 1e-9
    for rate in found.per_class:
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
    assert found.verdict.per_class != found.per_class
    assert found.estimate_basis == "estimated, in proportion to the measured noise rate"


def test_what_is_left_is_covered_where_samples_are_dropped_and_unsure():
    """One of every ten answers is unsure and one dropped, in the sample and worst first."""
    covered = []
    for seed in range(60):
        evidence, given, wrong, sample = population(seed, 2000)
        rows, worst = sample.rows[:100].tolist(), np.argsort(evidence.log_odds)[:100].tolist()
        answers = answers_of(wrong, [*rows, *worst])
        answers |= dict.fromkeys(rows[::10] + worst[::10], UNSURE)
        answers |= dict.fromkeys(rows[1::10] + worst[1::10], DROP)
        found = Findings.of(evidence, given, CLASSES, answers, first(sample, 100), set(rows))
        covered.append(wrong[found.verdict.is_open].sum() in found.left_wrong)
    assert np.mean(covered) > 0.93


@forall(st.integers(0, 2**16), st.lists(st.sampled_from([0, 1, UNSURE, DROP]), max_size=120))
@settings(max_examples=40, deadline=None)
def test_counts_add_up_and_corrections_never_raise_the_rate(seed, kinds):
    evidence, given, _, sample = population(seed, 150)
    rows = np.random.default_rng(seed).permutation(150)[: len(kinds)].tolist()
    answers = {
        row: kind if isinstance(kind, Answer) else Answer("label", CLASSES[kind])
        for row, kind in zip(rows, kinds, strict=True)
    }
    found = Findings.of(evidence, given, CLASSES, answers, sample, ())
    left = int(found.verdict.is_open.sum())
    assert found.reviewed + found.dropped + left == 150
    assert found.reviewed + found.unsure + found.dropped == len(kinds)
    assert found.measured is None  # nothing was answered for the sample
    assert found.rate_left.value <= found.rate.value + 1e-9
    assert 0 <= found.left_wrong.low <= found.left_wrong.value <= found.left_wrong.high <= left
    whole = found.rate.value * (150 - found.dropped)
    assert whole == pytest.approx(found.found_wrong + found.left_wrong.value)
