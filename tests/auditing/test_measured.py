"""Which answers measure the noise rate: those of a random sample, as far as it was checked."""

import numpy as np

from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.report.to_check import export_sample
from abstain.scores.sampling import Sample, draw

from audits import answer, rows_of, truth_of


def test_reviews_chosen_by_hand_do_not_pass_for_a_random_sample(found, tmp_path):
    truth = truth_of(found)
    export_sample(AuditFolder.open(found.folder), tmp_path / "to-check.csv", 60)  # never answered
    worst = [found.data.ids[k] for k in found.order[:40].tolist()]
    knows = found.with_reviewed({id_: truth[id_] for id_ in worst[:20]})
    assert knows.measured is None
    assert "checked so far: 0" in knows.caution
    assert knows.confidence == 0.9
    assert knows.summary()["reviewed"] == 20
    basis = "estimated from the labels, 20 of them reviewed"
    assert knows.summary()["left_wrong"]["basis"] == basis
    # Nor once the sample is answered in part: beyond the last answer they are no part of it.
    drawn = [row["id"] for row in rows_of(tmp_path / "to-check.csv")]
    both = knows.with_reviewed({id_: truth[id_] for id_ in worst})
    both = both.with_reviewed({id_: truth[id_] for id_ in drawn[:35]})
    assert both.checked == 35
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
    assert "A sample of 60 labels was drawn; checked so far: 29" in few.caution
    answer(tmp_path / "to-check.csv", truth_of(found), 30)
    assert found.with_reviewed(tmp_path / "to-check.csv").checked == 30


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
        assert checked.checked == 100
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
    assert knows.with_reviewed(tmp_path / "to-check.csv").checked == last + 1


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
    assert (knows.checked, knows.with_reviewed(tmp_path / "larger.csv").checked) == (40, 90)
