"""Tests of the gain of a review, as figures and as a page."""

import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.report.numbers import rough
from abstain.review.before_after import PAGE, compare
from abstain.review.decisions import Answer
from abstain.review.queue import Filter
from abstain.review.retrain import retrain
from abstain.review.session import Session
from abstain.review.training import next_folder

from audits import HOSTILE
from review_client import decide, settled, upcoming


@pytest.fixture
def gained(texts):
    """60 labels answered with the truth, one dropped, 10 judged by two, and a new training."""
    true = np.asarray(pq.read_table(texts / "ledger.parquet").column("true"))
    session = Session(texts)
    try:
        rows = [x["row"] for x in session.next_items(Filter(), "ann", 61)["items"]]
        truth = {row: Answer("label", session.classes[true[row]]) for row in rows[:60]}
        session.decide(truth, who="ann", mode="fix", request="a")
        session.decide({rows[60]: Answer("drop")}, who="ann", mode="fix", request="d")
        second = {row: truth[row] for row in rows[:10]}
        session.decide(second, who=HOSTILE[:30], mode="second", request="b")
        wrong = (session.queue.given != true)[rows[:60]].sum()
    finally:
        session.close()
    place = next_folder(texts)
    retrain(texts, place)
    return texts, place / "audit", int(wrong)


def test_the_figures_are_those_of_both_audits_and_of_the_log(gained):
    before, after, wrong = gained
    found = compare(before, after)
    lines = {line.what: line for line in found.lines}
    assert (lines["labels"].before, lines["labels"].after) == (160, 159)
    assert found.decided == {"changed": wrong, "kept": 60 - wrong, "dropped": 1, "unsure": 0}
    right = lines["labels that are right, by the truth"]
    assert right.after > right.before + 0.1
    rate = lines["noise rate, estimated by both audits, given the decisions"]
    assert "the second audit, which does not know them, says" in rate.note
    assert rough(AuditFolder.open(after).findings().rate) in rate.note
    assert rate.after.low <= rate.after.value <= rate.after.high
    assert rate.after.value < rate.before.value
    (both,) = found.agreements
    assert (both.both, both.alike, both.kappa) == (10, 10, 1.0)
    assert len(found.people) == 2
    assert found.caution == ""
    assert 0 < len(found.examples) <= 8
    for example in found.examples:
        assert example.given != example.corrected
        assert example.corrected == ("good", "bad")[int(example.id) % 2]


def test_thirty_right_corrections_never_raise_the_rate(texts, page):
    """Both sides know the same decisions: what was found wrong was so before, too."""
    true = np.asarray(pq.read_table(texts / "ledger.parquet").column("true"))
    told = []
    with page(texts) as client:
        session = client.session
        for _ in range(30):
            (item,) = upcoming(client, count=1)
            decide(client, item["row"], session.classes[true[item["row"]]])
            settled(client)
            gain = client.get("/api/gain").json()["rows"]
            line = next(x for x in gain if x["what"] == "noise rate, by the decisions")
            told.append((line["before"], line["after"]))
        wrong = session.findings.found_wrong
    assert wrong > 20
    before, after = np.array(told).T
    assert (after < before).all()
    np.testing.assert_allclose((before - after)[-1], wrong / len(true))


def test_the_page_is_whole_safe_and_served(gained, page):
    before, after, _ = gained
    text = (after / PAGE).read_text()
    assert "<script" not in text.replace("&lt;", "")
    assert "&lt;/script&gt;" in text
    assert not re.search(r'(src|href)="(?!data:)', text)
    with page(before) as client:
        gain = client.get("/api/gain").json()
        assert gain["page"]
        answer = client.get("/before-after")
        assert answer.status_code == 200
        assert answer.text == text
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; style-src 'sha256-" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_without_a_training_there_is_no_page(texts, page):
    with page(texts) as client:
        assert client.get("/before-after").status_code == 400
        assert not client.get("/api/gain").json()["page"]


def test_audits_that_do_not_belong_together_are_told_apart(gained, made):
    before, *_ = gained
    found = compare(before, made / "of-photos")
    assert "60 labels, and these decisions leave 159" in found.caution
    assert "trained in different ways" in found.caution


def test_what_nobody_reviewed_is_refused(texts, made):
    with pytest.raises(AbstainError, match="must have been reviewed"):
        compare(texts, made / "of-photos")
