"""A review, its audit, report, summary and comparison give the same figures."""

import json
import re

import pytest

from abstain.auditing.folder import AuditFolder
from abstain.cli import main
from abstain.report.numbers import count, expectation, rough, span
from abstain.scores.interval import Interval

from review_client import decide, settled, upcoming

SAID = (
    "noise_rate",
    "left_wrong",
    "flagged",
    "flagged_without_proposal",
    "reviewed",
    "found_wrong",
    "unsure",
    "dropped",
    "verified",
    "halved_by",
)


def run(capsys, *words):
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert end.value.code == 0
    return capsys.readouterr().out


def answer(client, number, mode):
    """Answers of all kinds: one in six dropped, one in six unsure, half of the others kept."""
    classes, given = client.session.classes, client.session.queue.given
    for k, item in enumerate(upcoming(client, count=number, mode=mode)):
        kind = ("label", "drop", "label", "unsure", "label", "label")[k % 6]
        label = classes[(given[item["row"]] + k % 2) % 2] if kind == "label" else None
        decide(client, item["row"], label, kind=kind, mode=mode)


def ends(figures):
    return Interval(**{name: figures[name] for name in ("value", "low", "high")})


@pytest.mark.parametrize(("fixed", "verified"), [(30, 0), (30, 12), (18, 60)])
def test_page_terminal_report_summary_and_comparison_say_the_same(
    texts, made, page, capsys, tmp_path, fixed, verified
):
    with page(texts) as client:
        answer(client, fixed, "fix")
        answer(client, verified, "verify") if verified else None
        status = settled(client)
    assert status["dropped"] > 3
    assert status["unsure"] > 3
    assert status["verified"]["is_measured"] == (verified == 60)
    words = run(capsys, "audit", "--resume", texts)
    summary = json.loads((texts / "summary.json").read_text())
    assert {name: summary[name] for name in SAID} == {name: status[name] for name in SAID}
    said = json.loads(run(capsys, "audit", "--resume", texts, "--json"))
    assert {name: said[name] for name in SAID} == {name: status[name] for name in SAID}
    rate, left = ends(status["noise_rate"]), ends(status["left_wrong"])
    basis = status["noise_rate"]["basis"]
    likely = f", most likely {rough(rate)}" if verified == 60 else ""  # of a measured rate alone
    assert f"{span(rate)} of 160 labels are wrong{likely} (" in words
    assert ("measured, no longer estimated; the estimate was" in words) == bool(likely)
    assert f"% interval, {basis})" in words
    assert re.search(rf"labels flagged +{count(status['flagged'])}\b", words)
    assert re.search(rf"left among the others +{re.escape(expectation(left))}\n", words)
    assert re.search(rf"labels dropped +{status['dropped']}\n", words)
    assert re.search(rf"labels unsure +{status['unsure']}\n", words)
    report = (texts / "report.html").read_text()
    assert basis in report
    assert f"<em>{span(rate)}</em> of the labels are wrong{likely}." in report
    assert f">{count(status['flagged'])}<" in report
    folder = AuditFolder.open(texts)
    assert sum(folder.issues["is_label_issue"].to_pylist()) == status["flagged"]
    other = made / "of-photos"
    page_file = tmp_path / "before-after.html"
    gained = json.loads(run(capsys, "compare", texts, other, "--out", page_file, "--json"))
    labels, by_decisions = gained["lines"][:2]
    assert labels["after"] == labels["before"] - status["dropped"]
    assert by_decisions["before"] == {name: status["noise_rate"][name] for name in vars(rate)}
    assert by_decisions["after"]["value"] * labels["after"] == pytest.approx(left.value)
    assert by_decisions["after"]["high"] * labels["after"] == pytest.approx(left.high)
    assert gained["decided"] == {
        "changed": status["found_wrong"],
        "kept": status["reviewed"] - status["found_wrong"],
        "dropped": status["dropped"],
        "unsure": status["unsure"],
    }
    assert f"{rough(rate)} of the labels were wrong" in page_file.read_text()


def test_verify_says_what_counts_and_what_is_missing(texts, page):
    with page(texts) as client:
        answer(client, 36, "verify")
        verified = settled(client)["verified"]
    assert (verified["counted"], verified["unsure"], verified["dropped"]) == (24, 6, 6)
    assert (verified["missing"], verified["waiting"], verified["is_measured"]) == (6, 0, False)
    assert "6 more answers with a class measure the rate" in verified["why"]
    assert (
        "without a class, and taken as wrong and as right: 6 unsure and 6 dropped"
        in verified["why"]
    )
