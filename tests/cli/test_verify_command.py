"""`abstain verify` as it is typed: at a terminal, and from a pipe."""

import contextlib
import csv
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder

from audits import rows_of, write_texts
from commands import error_of

COMMAND = [sys.executable, "-m", "abstain", "verify"]


@pytest.fixture
def texts(tmp_path):
    write_texts(tmp_path / "reviews.csv")
    recipe = Recipe(epochs=2, warm_up=1)
    audit(tmp_path / "reviews.csv", recipe, folder=tmp_path / "audit", label="stars")
    return tmp_path / "audit"


def test_from_a_pipe_every_answer_counts_and_the_report_knows_it(texts):
    answers = "1\n" * 35 + "q\n"
    done = subprocess.run(
        [*COMMAND, texts], input=answers, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "35 answered:" in done.stdout
    assert "measured on 35 labels checked at random" in done.stdout
    assert AuditFolder.open(texts).summary["noise_rate"]["basis"].startswith("measured on 35")
    assert "measured on 35" in (texts / "report.html").read_text()


def test_at_a_terminal_a_key_is_enough(texts):
    main, terminal = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, texts], stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True
    ) as process:
        os.close(terminal)
        seen, typed = "", 0
        until = time.monotonic() + 100
        while process.poll() is None and time.monotonic() < until:
            if select.select([main], [], [], 0.2)[0]:
                try:
                    seen += os.read(main, 4096).decode(errors="replace")
                except OSError:  # the command has ended
                    break
            elif f"\u2500 {typed + 1} \u2500" in re.sub(r"\x1b\[\d*m", "", seen):  # it waits
                os.write(main, b"12q"[typed : typed + 1])
                typed += 1
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
    os.close(main)
    assert "28 more answers with a class measure the rate" in seen
    assert "→ class bad" in seen
    assert "Estimate until then" in seen.rpartition("Not measured yet")[2]
    assert process.returncode == 0, seen
    assert len(AuditFolder(texts).answers().by_id) == 2


def test_controls_act_whatever_the_classes_are_called(tmp_path):
    write_texts(tmp_path / "reviews.csv")
    rows = rows_of(tmp_path / "reviews.csv")
    called = {"bad": "drop", "good": "quiz"}
    with (tmp_path / "odd.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["text", "kind"])
        writer.writeheader()
        writer.writerows({"text": x["text"], "kind": called[x["stars"]]} for x in rows)
    recipe = Recipe(epochs=2, warm_up=1)
    audit(tmp_path / "odd.csv", recipe, folder=tmp_path / "audit", label="kind")
    done = subprocess.run(
        [*COMMAND, tmp_path / "audit"],
        input="x\n?\nquiz\n1\nq\n1\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'quiz' is none of the keys" in done.stdout
    assert "→ dropped (the sample)" in done.stdout
    assert "→ not sure" in done.stdout
    assert "→ class drop" in done.stdout
    kinds = sorted(x.kind for x in AuditFolder(tmp_path / "audit").answers().by_id.values())
    assert kinds == ["drop", "label", "unsure"]  # nothing after q


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--within", "0.7"], "--within must lie in (0, 0.5), got 0.7"),
        (["--most", "0"], "--most must be 1 or more, got 0"),
        ([], "must be the folder of an audit, got nowhere"),
    ],
)
def test_what_cannot_be_verified_is_one_line(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in error_of(capsys, "verify", "nowhere", *arguments)


def test_a_person_reads_no_json(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = error_of(capsys, "audit", "digits", "--check-now", "--json")
    assert "--check-now asks a person, so it does not go with --json; leave out --json" in message
