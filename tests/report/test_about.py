"""Tests of the settings of an audit, and of the commands for what comes next."""

import shlex

import numpy as np

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.report import render
from abstain.report.about import next_steps, what_was_done

from audits import blobs, write_texts


def test_where_nothing_is_flagged_nothing_is_to_be_repaired(tmp_path):
    x, y = blobs(300)
    np.savez(tmp_path / "blobs.npz", x=x, y=y)
    sure = 0.98 * np.eye(3)[y] + 0.02 / 3
    found = audit(tmp_path / "blobs.npz", probabilities=sure, folder=tmp_path / "audit")
    page = render(found)
    assert found.flagged == 0
    assert "<dt>labels flagged</dt>" in page
    assert "--to label-studio --all" in page
    assert "--to cleaned" not in page  # nothing is proposed that could be taken


def test_facts_say_how_the_source_was_read(tmp_path):
    path = write_texts(tmp_path / "texts.csv", count=60)
    found = audit(path, Recipe(epochs=2, warm_up=1), label="stars", features="text")
    facts = what_was_done(found)
    assert (facts["source"], facts["label"], facts["features"]) == (str(path), "stars", "text")
    assert "planted" not in facts
    assert "<dt>label</dt><dd><bdi>stars</bdi></dd>" in render(found)


def test_every_next_step_is_a_command_of_the_command_line(digits):
    from abstain.cli import app

    known = {command.name for command in app.registered_commands}
    steps = next_steps(digits)
    assert steps
    for command in steps.values():
        program, name, *_ = shlex.split(command)
        assert (program, name in known) == ("abstain", True)


def test_an_audit_in_memory_has_no_next_steps():
    assert next_steps(audit(blobs(), Recipe(epochs=1))) == {}
