"""The log: nothing acknowledged is lost, nothing is taken twice, nothing is ever changed.

Tests of store.py, and of decisions.py, which says what the log means.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from itertools import islice

import pytest
from sklearn.metrics import cohen_kappa_score

from abstain.errors import AbstainError
from abstain.review.decisions import Answer, cohens_kappa
from abstain.review.store import Mark, NotKeptError, Store

CAT, DOG = Answer("label", "cat"), Answer("label", "dog")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "review.sqlite") as opened:
        yield opened


def decide(store, id_, answer, who="ann", mode="fix", request=None):
    name = request or f"{time.monotonic_ns()}-{random.random()}"
    return store.decide({id_: answer}, who=who, mode=mode, request=name)


def test_an_entry_says_who_when_before_and_after(store):
    decide(store, "1", CAT)
    (entry,) = decide(store, "1", DOG, who="bob")
    assert (entry.who, entry.before, entry.after) == ("bob", CAT, DOG)
    assert entry.at.startswith("20")
    assert entry.at.endswith("+00:00")


def test_the_log_keeps_for_how_long_a_sample_was_looked_at(store):
    answers = {"1": CAT, "2": DOG}
    store.decide(answers, who="ann", mode="fix", request="x", seconds={"1": 2.5})
    with Store(store.path) as again:
        assert [x.seconds for x in again.decisions.in_order()] == [2.5, None]


def test_a_log_without_seconds_gets_them_when_it_is_opened(store):
    decide(store, "1", CAT)
    store._connection.execute("ALTER TABLE log DROP COLUMN seconds")
    with Store(store.path) as again:
        again.decide({"2": DOG}, who="ann", mode="fix", request="y", seconds={"2": 1.0})
        assert [x.seconds for x in again.decisions.in_order()] == [None, 1.0]


def test_what_was_decided_is_there_when_opened_again(store):
    decide(store, "1", CAT)
    decide(store, "2", Answer("drop"))
    with Store(store.path) as again:
        assert again.decisions.answer("1") == CAT
        assert again.decisions.answer("2") == Answer("drop")


def test_a_request_that_is_sent_again_is_taken_once(store):
    first = decide(store, "1", CAT, request="same")
    second = decide(store, "1", CAT, request="same")
    assert first == second
    assert len(store.decisions.entries) == 1


def test_the_name_of_a_request_stands_for_no_other(store):
    decide(store, "1", CAT, request="a")
    store.take_note("1", "ears", who="ann", request="n")
    decide(store, "2", CAT, request="b")
    store.undo(3, who="ann", request="u")
    last = store.decisions.last
    for again in (
        lambda: decide(store, "2", CAT, request="a"),
        lambda: decide(store, "1", Answer("drop"), request="a"),
        lambda: decide(store, "1", CAT, request="u"),
        lambda: store.take_note("1", "tail", who="ann", request="n"),
        lambda: store.take_note("1", "ears", who="ann", request="a"),
        lambda: store.undo(1, who="ann", request="u"),
        lambda: store.undo(1, who="ann", request="a"),
    ):
        with pytest.raises(AbstainError, match="request must have a name of its own"):
            again()
    assert store.take_note("1", "ears", who="ann", request="n")[0].seq == 2
    assert store.undo(3, who="ann", request="u")[0].seq == 4
    assert store.decisions.last == last


def test_many_decisions_are_taken_together_or_not_at_all(store):
    with pytest.raises(AttributeError):
        store.decide({"1": CAT, "2": "no answer"}, who="ann", mode="fix", request="r")
    with Store(store.path) as again:
        assert not again.decisions.entries


def test_the_log_cannot_be_changed(store):
    decide(store, "1", CAT)
    other = sqlite3.connect(store.path)
    for statement in ("UPDATE log SET after='=dog'", "DELETE FROM log"):
        with pytest.raises(sqlite3.IntegrityError, match="only appended"):
            other.execute(statement)
    other.close()


def test_undo_is_an_entry_and_can_be_undone_itself(store):
    decide(store, "1", CAT)
    (changed,) = decide(store, "1", DOG)
    (undo,) = store.undo(changed.seq, who="ann", request="u1")
    assert (undo.before, undo.after) == (DOG, CAT)
    assert store.decisions.answer("1") == CAT
    (redo,) = store.undo(undo.seq, who="ann", request="u2")
    assert redo.after == DOG
    assert store.decisions.answer("1") == DOG
    with Store(store.path) as again:
        assert again.decisions.answer("1") == DOG
        assert len(again.decisions.entries) == 4


def test_an_older_entry_can_be_undone_while_the_newer_one_holds(store):
    (old,) = decide(store, "1", CAT)
    decide(store, "1", DOG)
    store.undo(old.seq, who="ann", request="u")
    assert store.decisions.answer("1") == DOG
    with pytest.raises(AbstainError, match="must be entries that are not undone"):
        store.undo(old.seq, who="ann", request="v")


def test_many_entries_are_undone_at_once_or_not_at_all(store):
    entries = store.decide({str(k): CAT for k in range(60)}, who="ann", mode="fix", request="grid")
    store.undo(entries[0].seq, who="bob", request="one")
    undone = store.undo(*(x.seq for x in entries), who="ann", request="all")
    assert [x.undoes for x in undone] == [x.seq for x in entries[1:]]  # one was undone before
    assert not any(store.decisions.answer(x.id) for x in entries)
    assert store.undo(*(x.seq for x in entries), who="ann", request="all") == undone
    (first,), (second,) = decide(store, "1", CAT), decide(store, "1", DOG, who="bob")
    with pytest.raises(AbstainError, match="one of a label"):
        store.undo(first.seq, second.seq, who="ann", request="both")


def test_a_log_of_an_earlier_version_is_gone_on_with(store):
    decide(store, "1", CAT)
    store._connection.execute("DROP TABLE seen")
    store.close()
    with Store(store.path) as again:
        again.decide({"2": DOG}, who="ann", mode="fix", request="r", seen={"2": Mark("s", "d")})
        assert again.decisions.answer("1") == CAT
        assert again.seen() == {"2": Mark("s", "d")}


def test_a_class_may_be_called_like_an_answer(store):
    decide(store, "1", Answer("label", "drop"))
    assert store.decisions.answer("1") == Answer("label", "drop")


def test_a_note_leaves_the_decision(store):
    decide(store, "1", CAT)
    store.take_note("1", "=blurred", who="bob", request="n")
    assert store.decisions.answer("1") == CAT
    assert store.decisions.note("1") == "=blurred"
    assert store.decisions.standing("1").who == "ann"


def test_disputes_end_when_somebody_settles_them(store):
    decide(store, "1", CAT, who="ann")
    decide(store, "1", DOG, who="bob", mode="second")
    decide(store, "2", CAT, who="ann")
    decide(store, "2", CAT, who="bob", mode="second")
    assert store.decisions.disputes() == ["1"]
    decide(store, "1", CAT, who="cid", mode="settle")
    assert store.decisions.disputes() == []
    assert store.decisions.answer("1") == CAT
    (found,) = store.decisions.agreements()
    assert (found.people, found.both, found.alike) == (("ann", "bob"), 2, 1)


def test_kappa_is_that_of_scikit_learn():
    rng = random.Random(0)
    for size in (2, 5, 50):
        pairs = [(rng.choice("abc"), rng.choice("abc")) for _ in range(size)]
        pairs += [("a", "a"), ("b", "b")]
        reference = cohen_kappa_score(*zip(*pairs, strict=True))
        assert cohens_kappa(pairs) == pytest.approx(reference)
    assert cohens_kappa([("a", "a")] * 3) is None
    assert cohens_kappa([]) is None


def test_people_at_once_lose_and_double_nothing(tmp_path):
    """Each through a connection of its own, as two servers or a server and an export would."""
    path = tmp_path / "review.sqlite"
    Store(path).close()

    def work(who):
        with Store(path) as own:
            for k in range(50):
                decide(own, f"{k}", Answer("label", who), who=who)

    threads = [threading.Thread(target=work, args=(who,)) for who in ("ann", "bob", "cid")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Store(path) as store:
        entries = list(store.decisions.entries.values())
        assert len(entries) == 150
        for k in range(50):
            of_label = [x for x in entries if x.id == f"{k}"]
            assert of_label[0].before is None
            assert [x.before for x in of_label[1:]] == [x.after for x in of_label[:-1]]


def gone(path):
    for one in path.parent.glob("review.sqlite*"):
        one.unlink()


def moved(path):
    path.parent.rename(path.parent.with_name("elsewhere"))


def replaced(path):
    with Store(path.with_name("other.sqlite")) as other:
        decide(other, "9", DOG)
    path.with_name("other.sqlite").replace(path)


def wal_gone(path):
    path.with_name("review.sqlite-wal").unlink()


@pytest.mark.parametrize("change", [gone, moved, replaced, wal_gone])
def test_nothing_is_acknowledged_that_would_be_lost(tmp_path, change):
    path = tmp_path / "audit" / "review.sqlite"
    path.parent.mkdir()
    store = Store(path)
    decide(store, "1", CAT)
    change(path)
    for _ in range(2):
        with pytest.raises(NotKeptError, match="moved, deleted or replaced while it was open"):
            decide(store, "2", DOG)
    assert store.decisions.answer("2") is None
    whole = tmp_path / "copy.sqlite"
    whole.write_bytes(store.copy())
    with Store(whole) as again:  # what was acknowledged, to be put back
        assert again.decisions.answer("1") == CAT
        decide(again, "2", DOG)
    store.close()


def test_a_log_that_is_moved_back_goes_on(tmp_path):
    path = tmp_path / "audit" / "review.sqlite"
    path.parent.mkdir()
    with Store(path) as store:
        moved(path)
        with pytest.raises(NotKeptError):
            decide(store, "1", CAT)
        (tmp_path / "elsewhere").rename(tmp_path / "audit")
        decide(store, "1", CAT)
    with Store(path) as again:
        assert again.decisions.answer("1") == CAT


def test_a_full_disk_is_named_and_nothing_is_lost(store):
    decide(store, "1", CAT)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(NotKeptError, match="the disk is full"):
        decide(store, "2", DOG, request="x" * 100_000)
    kept = len(store.decisions.entries)
    store._connection.execute("PRAGMA max_page_count=1000000")
    decide(store, "last", CAT)
    with Store(store.path) as again:
        assert len(again.decisions.entries) == kept + 1


WORKER = """
import sys
from pathlib import Path
from abstain.review.decisions import Answer
from abstain.review.store import Store
store = Store(Path(sys.argv[1]))
for line in sys.stdin:
    name = line.strip()
    store.decide({name: Answer("label", "c" + name)}, who="ann", mode="fix", request="r" + name)
    print(name, flush=True)
"""


def test_kill_loses_no_acknowledged_decision(tmp_path):
    """1,000 decisions; killed at random moments; what was not acknowledged is sent again."""
    path, rng = tmp_path / "review.sqlite", random.Random(0)
    todo, acknowledged, kills = [str(k) for k in range(1000)], [], 0
    while todo:
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        worker.stdin.write("\n".join(todo) + "\n")
        worker.stdin.close()
        # Killed while it goes on: after some were acknowledged, and a moment that is no round one.
        done = list(islice(worker.stdout, rng.randint(20, 200)))
        time.sleep(rng.uniform(0, 0.005))
        os.kill(worker.pid, signal.SIGKILL)
        done += worker.stdout.readlines()
        acknowledged += [line.strip() for line in done if line.endswith("\n")]
        kills += worker.wait() == -signal.SIGKILL
        with Store(path) as store:
            assert all(store.decisions.answer(x) == Answer("label", f"c{x}") for x in acknowledged)
        known = set(acknowledged)
        todo = [x for x in todo if x not in known]
    assert kills >= 5
    with Store(path) as store:
        assert len(store.decisions.entries) == 1000
        assert {x.id for x in store.decisions.entries.values()} == {str(k) for k in range(1000)}


def test_what_is_no_log_is_refused_in_a_line(tmp_path):
    path = tmp_path / "review.sqlite"
    path.write_text("hello, this is no database at all" * 100)
    with pytest.raises(AbstainError, match="must be a log of decisions"):
        Store(path)
