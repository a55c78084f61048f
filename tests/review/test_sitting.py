"""A sitting at the keyboard: the same sample, log and figures as on the page."""

import pytest

from abstain.auditing.answers import DROP, UNSURE, Answer
from abstain.auditing.folder import AuditFolder
from abstain.review.session import Session
from abstain.review.sitting import Keys, is_narrow, verify


def sit(folder, keys, width=0.01, most=200):
    """Type some keys; whether the interval became narrow, what was shown and what was said."""
    shown, said, rates, typed = [], [], [], iter(keys)
    session = Session(folder)
    try:
        done = verify(
            session,
            who="ann",
            ask=lambda: next(typed, None),
            show=lambda item, answered: shown.append(item),
            tell=said.append,
            progress=lambda said, findings: rates.append(findings.rate),
            width=width,
            most=most,
        )
    finally:
        session.close()
    return done, shown, said, rates


def test_answers_are_those_of_the_sample_in_its_order(texts):
    _, shown, _, _ = sit(texts, ["1", "2", "?", "x"])
    session = Session(texts)
    rows = session.findings.sample.rows[:4].tolist()
    classes, ids = session.classes, session.ids
    session.close()
    assert [item["row"] for item in shown[:4]] == rows
    answers = AuditFolder(texts).answers()
    expected = [Answer("label", classes[0]), Answer("label", classes[1]), UNSURE, DROP]
    assert [answers.by_id[ids[row]] for row in rows] == expected
    assert answers.drawn == {ids[row] for row in rows}


def test_the_label_as_given_is_not_shown(texts):
    _, shown, _, _ = sit(texts, ["1"])
    assert not {"given", "proposed", "proposals", "wrong"} & shown[0].keys()


def test_a_sitting_goes_on_where_it_ended_and_back_where_one_slipped(texts):
    _, first, _, _ = sit(texts, ["1", "1"])
    _, second, said, _ = sit(texts, ["<", "2", "<", "1"])
    assert second[0]["row"] == first[2]["row"]  # an earlier sitting is not taken back unasked
    assert said == ["Nothing of this sitting to take back."]
    assert second[1]["row"] != second[0]["row"] == second[2]["row"] if len(second) > 2 else True
    answer = AuditFolder(texts).answers().by_id
    session = Session(texts)
    assert answer[session.ids[second[0]["row"]]].label == session.classes[0]
    session.close()


def test_keys_that_mean_nothing_are_said_and_asked_again(texts):
    _, shown, said, _ = sit(texts, ["9", "", "1"])
    assert said == ["'9' is none of the keys."]
    assert len(shown) == 2


def test_it_ends_when_the_interval_is_narrow_or_enough_was_answered(texts):
    session = Session(texts)
    given = [session.classes[int(session.queue.given[row])] for row in range(len(session.ids))]
    key = dict(zip(session.classes, session.description()["keys"], strict=True))
    rows = session.audit.hand_out(session.ids, session.findings.verdict.wrong_probability, 100)
    session.close()
    right = [key[given[row]] for row in rows.rows.tolist()]
    done, shown, _, rates = sit(texts, right, width=0.08)
    assert done
    assert 30 <= len(shown) < 100
    assert rates[-1].high - rates[-1].low <= 0.08 < rates[-2].high - rates[-2].low
    done, shown, _, _ = sit(texts, right, width=0.001, most=len(shown) + 5)
    assert not done
    assert len(shown) == 5


def test_nothing_is_narrow_before_it_is_measured(texts):
    session = Session(texts)
    try:
        assert not is_narrow(session.findings, 1.0)
    finally:
        session.close()


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("=x", "x"),
        ("app", "apple pie"),
        ("a", None),
        ("Apri", "apricot"),
        ("", None),
        ("x1", "x11"),
        ("quiz", "quiz"),
        ("=q", "q"),
    ],
)
def test_a_class_is_named_by_its_name_or_its_beginning(text, label):
    keys = Keys.of(["x", "x11", "q", "quiz", "apple pie", "apricot"], None)
    answer = keys.read(text)
    assert (None if answer is None else answer.label) == label


@pytest.mark.parametrize("by_key", [None, ["1", "2", "3", "4", "5"]])
def test_controls_mean_the_same_whatever_the_classes_are_called(by_key):
    keys = Keys.of(["q", "x", "?", "<", "quiz"], by_key)
    assert [keys.read(text) for text in ("?", "x", "<", "q")] == [UNSURE, DROP, None, None]


def test_where_classes_have_keys_only_these_count():
    keys = Keys.of(["quiz", "x11"], ["1", "2"])
    assert keys.read("2") == Answer("label", "x11")
    assert [keys.read(text) for text in ("q", "quiz", "x1", "=x11", "3", "")] == [None] * 6


def test_without_keys_names_are_typed():
    keys = Keys.of(["7", "8"], None)
    assert keys.read("7") == Answer("label", "7")
    assert keys.read("?") == UNSURE
