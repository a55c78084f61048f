"""The worth of a review: planted errors, answered with the truth up to a budget, trained anew.

With retrain.py, the process that trains.
"""

import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.review.decisions import Answer
from abstain.review.queue import Filter
from abstain.review.session import Session
from abstain.review.training import Retraining

BUDGET = 300


def answer_with_truth(session, true, budget):
    found = session.next_items(Filter(), "ann", budget)["items"]
    answers = {x["row"]: Answer("label", session.classes[true[x["row"]]]) for x in found}
    session.decide(answers, who="ann", mode="fix", request="all")
    return np.array(list(answers))


@pytest.mark.slow
def test_answers_up_to_a_budget_make_a_better_model(tmp_path):
    audit("digits", Recipe(epochs=8, warm_up=1, flip=0.3), folder=tmp_path / "audit")
    true = np.asarray(pq.read_table(tmp_path / "audit" / "ledger.parquet").column("true"))
    session = Session(tmp_path / "audit")
    try:
        rows = answer_with_truth(session, true, BUDGET)
        retraining = Retraining(session)
        retraining.start()
        while retraining.running:
            time.sleep(0.2)
        gain = retraining.gain()
    finally:
        session.close()
    assert gain["trouble"] == ""
    figures = {row["what"]: (row["before"], row["after"]) for row in gain["rows"]}
    wrong = session.queue.given != true
    before, after = figures["labels that are right, by the truth"]
    assert before == pytest.approx(1 - wrong.mean())
    assert after == pytest.approx(before + wrong[rows].sum() / len(true))
    assert wrong[rows].mean() > 0.9  # worst first: hardly an answer is in vain
    before, after = figures["accuracy on the test labels"]
    assert after > before
    before, after = figures["noise rate, estimated by both audits, given the decisions"]
    assert after < before / 1.5


def test_a_training_on_corrected_labels_is_an_audit_of_its_own(texts):
    from abstain.review.retrain import retrain
    from abstain.review.training import again_folders, gained, next_folder

    true = np.asarray(pq.read_table(texts / "ledger.parquet").column("true"))
    session = Session(texts)
    try:
        answer_with_truth(session, true, 60)
        dropped = session.next_items(Filter(), "ann", 1)["items"][0]["row"]
        session.decide({dropped: Answer("drop")}, who="ann", mode="fix", request="drop")
        session.again()
        place = next_folder(texts)
        found = retrain(texts, place)
        assert len(found.data) == len(true) - 1
        right = (found.data.given.numpy() == np.delete(true, dropped)).mean()
        assert right > (session.queue.given == true).mean() + 0.1
        assert again_folders(texts) == [place]
        rows = {row["what"]: row for row in gained(session)["rows"]}
        after = rows["noise rate, estimated by both audits, given the decisions"]
        decided = session.findings.verdict.is_reviewed[np.arange(len(true)) != dropped]
        names = found.issues.sort_by("id")  # whatever a reviewer gave is the label there
        label = dict(zip(names["id"].to_pylist(), names["given_label"].to_pylist(), strict=True))
        knows = {id_: label[id_] for id_, x in zip(found.data.ids, decided, strict=True) if x}
        assert len(knows) == 60
        told = found.with_reviewed(knows).noise_rate.value
        assert after["after"] == pytest.approx(told)
        assert after["before"] == session.findings.rate.value
        assert next_folder(texts) == texts / "again-2"
    finally:
        session.close()


def test_a_folder_may_be_called_as_a_built_in_set_is(tmp_path, monkeypatch):
    """`abstain audit digits --out digits`, then exports and training, all from beside it."""
    from abstain.auditing.folder import AuditFolder
    from abstain.review.export import export_corrected
    from abstain.review.retrain import retrain

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "digits"
    audit("digits", Recipe(epochs=2, warm_up=1), folder="digits")
    audit("digits", Recipe(epochs=2, warm_up=1), folder="again")  # beside a folder of that name
    for place in (folder, tmp_path / "again"):
        session = Session(place)
        try:
            row = session.next_items(Filter(), "ann", 1)["items"][0]["row"]
            session.decide({row: Answer("drop")}, who="ann", mode="fix", request="drop")
        finally:
            session.close()
        written = export_corrected(AuditFolder.open(place), tmp_path / f"{place.name}.csv")
        assert written.rows == len(session.ids)
    found = retrain(folder, folder / "again-1")
    assert len(found.data) == len(session.ids) - 1
