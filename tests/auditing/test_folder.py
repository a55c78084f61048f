"""The folder of a finished audit, read again, and what new answers do with it.

Tests of folder.py, verdict_inputs.py and run.py.
"""

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import abstain
from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.folder import COLUMNS, AuditFolder
from abstain.errors import AbstainError
from abstain.exporting.label_studio import export_label_studio
from abstain.exporting.to_check import export_sample
from abstain.report import write_report

from audits import FLIPPED, blobs, rows_of, saved, truth_of, write_images, write_texts

SHORT = Recipe(epochs=6, warm_up=1)


def test_folders_that_are_no_audit_are_each_refused_with_the_reason(tmp_path):
    with pytest.raises(AbstainError, match="audit must be the folder of an audit"):
        AuditFolder.open(tmp_path / "nowhere")
    abstain.train(blobs(60), SHORT, folder=tmp_path / "run")
    with pytest.raises(AbstainError, match=r"that of a training; .* abstain audit --resume .*run"):
        AuditFolder.open(tmp_path / "run")


def test_the_data_are_loaded_again_as_they_were_audited(tmp_path):
    path = write_texts(tmp_path / "texts.csv", count=60)
    found = audit(path, SHORT, label="stars", features="text", folder=tmp_path / "audit")
    again = AuditFolder.open(tmp_path / "audit").load()
    assert list(again.ids) == list(found.data.ids)
    assert again.inputs == found.data.inputs
    assert again.given.equal(found.data.given)


def test_what_is_shown_is_loaded_without_the_features_that_were_trained_on(tmp_path):
    path = write_texts(tmp_path / "texts.csv", count=60)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 3)))
    options = {"label": "stars", "features": tmp_path / "x.npy"}
    saved_audit = saved(path, tmp_path / "audit", SHORT, **options)
    assert saved_audit.load().inputs.shape == (60, 3)
    (tmp_path / "x.npy").unlink()
    with pytest.raises(AbstainError, match=r"features must name a file that exists, got .*x.npy"):
        saved_audit.load()
    texts = saved_audit.load(shown_only=True)
    assert texts.kind == "text"
    assert texts.shown is None
    assert export_sample(saved_audit, tmp_path / "to-check.csv", 10).rows == 10
    assert "day" in rows_of(tmp_path / "to-check.csv")[0]["text"]
    assert export_label_studio(saved_audit, tmp_path / "tasks.json", flagged=False) == 60


def test_data_in_memory_cannot_be_loaded_again(tmp_path):
    audit(blobs(60), SHORT, folder=tmp_path / "audit")
    with pytest.raises(AbstainError, match="audit of data in memory"):
        AuditFolder.open(tmp_path / "audit").load()


@pytest.mark.parametrize(
    ("change", "message"),
    [({"format": 99}, "must be of format"), ({"classes": None}, "must be whole, got none of cl")],
)
def test_a_summary_of_another_version_is_refused(found, change, message):
    path = found.folder / "summary.json"
    summary = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({name: x for name, x in summary.items() if x is not None}))
    with pytest.raises(AbstainError, match=message):
        AuditFolder.open(found.folder)


def test_a_table_that_is_cut_short_is_named(found):
    path = found.folder / "issues.parquet"
    path.write_bytes(path.read_bytes()[:100])
    line = r"audit must be whole, got a damaged issues.parquet .*; abstain audit --resume .* writes"
    with pytest.raises(AbstainError, match=line):
        AuditFolder.open(found.folder)


def test_damaged_tables_are_written_anew_with_all_answers(tmp_path):
    np.savez(tmp_path / "blobs.npz", X=blobs(90)[0], y=blobs(90)[1])
    folder = tmp_path / "audit"
    found = audit(tmp_path / "blobs.npz", SHORT, folder=folder)
    audit(folder=folder, resume=True, reviewed={found.data.ids[3]: "1"})
    for name in ("issues.parquet", "weights.parquet"):
        before = pq.read_table(folder / name)
        (folder / name).write_bytes((folder / name).read_bytes()[:100])
        again = audit(folder=folder, resume=True)
        assert again.reviewed == {found.data.ids[3]: "1"}
        assert pq.read_table(folder / name).column_names == before.column_names
        assert pq.read_table(folder / name).num_rows == 90


def test_a_source_that_is_gone_is_not_taken_for_one_of_a_like_name(tmp_path):
    for name in ("a.npz", "b.npz"):
        np.savez(tmp_path / name, X=blobs(60)[0], y=blobs(60)[1])
    audit(tmp_path / "a.npz", SHORT, folder=tmp_path / "audit")
    (tmp_path / "a.npz").unlink()
    with pytest.raises(AbstainError, match=r"got no .*a.npz; put it back$"):
        AuditFolder.open(tmp_path / "audit").load()


def test_what_a_verdict_is_computed_from_is_read_as_it_was_kept(found):
    inputs, evidence = AuditFolder.open(found.folder).verdict_inputs, found.verdict.evidence
    assert inputs.given.tolist() == found.given.tolist()
    assert inputs.true.tolist() == found.data.true.tolist()
    assert inputs.evidence.memorised == evidence.memorised
    for name in ("log_odds", "rival", "rival_share", "abstention"):
        np.testing.assert_array_equal(getattr(inputs.evidence, name), getattr(evidence, name))
    assert inputs.held_out is found.held_out is None


def test_what_was_held_out_is_kept(tmp_path):
    x, y = blobs(60)
    p = 0.9 * np.eye(3)[(y + (np.arange(60) < 9)) % 3] + 0.1 / 3
    found = audit((x, y), probabilities=p, folder=tmp_path / "audit")
    again = AuditFolder(found.folder).verdict_inputs.held_out
    assert again.accuracy == found.held_out.accuracy == 0.85
    assert again.standard_error == found.held_out.standard_error


def test_groups_of_identical_samples_are_kept(tmp_path):
    x, y = blobs(60)
    x, y = np.concatenate([x, x[[7, 3, 3]]]), np.concatenate([y, y[[7, 3, 3]] + [1, 1, 0]])
    found = audit((x, y % 3), SHORT, folder=tmp_path / "audit")
    again = AuditFolder.open(tmp_path / "audit").verdict_inputs.duplicates
    assert found.duplicates.members.tolist() == [3, 61, 62, 7, 60]
    assert again.members.tolist() == found.duplicates.members.tolist()
    assert again.group.tolist() == found.duplicates.group.tolist()


def test_a_folder_without_evidence_says_how_to_add_it(found):
    path = found.folder / "evidence.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["duplicates"]), path)
    with pytest.raises(AbstainError, match=r"must hold 'duplicates', .*abstain audit --resume"):
        _ = AuditFolder(found.folder).verdict_inputs
    path.unlink()
    with pytest.raises(AbstainError, match=r"must hold evidence.*abstain audit --resume"):
        _ = AuditFolder(found.folder).verdict_inputs


def test_evidence_that_is_cut_short_is_refused(found):
    (found.folder / "evidence.parquet").write_bytes(b"PAR1")
    with pytest.raises(AbstainError, match="must be as abstain wrote it"):
        _ = AuditFolder(found.folder).verdict_inputs


NEW_ANSWERS = """
import sys
from abstain.cli import main
try:
    main(["audit", "--resume", "audit", "--reviewed", "checked.csv"])
except SystemExit as end:
    assert not end.code
trains = ("abstain.training.train", "abstain.training.trained", "abstain.training.loop")
print(*(name for name in sys.modules if name.startswith(trains)), file=sys.stderr)
"""


def files(folder):
    return {
        path.name: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.iterdir()
        if path.is_file()
    }


def test_new_answers_never_enter_training(found, tmp_path):
    """No module that trains is imported, no weights are written, and none need be there."""
    worst = [found.data.ids[k] for k in found.order[:9].tolist()]
    lines = "".join(f"{id_},{truth}\n" for id_, truth in truth_of(found).items() if id_ in worst)
    (tmp_path / "checked.csv").write_text(f"id,checked_label\n{lines}")
    before = files(found.folder)
    command = [sys.executable, "-c", NEW_ANSWERS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""
    changed = {x for x, seen in files(found.folder).items() if before.get(x) != seen}
    verdict = {"issues.csv", "issues.parquet", "weights.parquet", "summary.json", "report.html"}
    assert changed == {*verdict, "evidence.parquet", "reviewed.parquet"}
    expected = found.with_reviewed(tmp_path / "checked.csv")
    assert AuditFolder.open(found.folder).summary["left_wrong"]["value"] == pytest.approx(
        expected.left_wrong.value
    )
    assert pq.read_table(found.folder / "issues.parquet").select(COLUMNS).equals(expected.issues)
    # Neither the weights nor the source: the report then shows no samples.
    for path in (*found.folder.glob("*.safetensors"), tmp_path / "blobs.npz"):
        path.unlink()
    subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    report = (found.folder / "report.html").read_text()
    assert "not shown" in report
    assert "estimated from the labels, 9 of them reviewed" in report


@pytest.mark.parametrize("kind", ["texts", "images", "table", "features", "test set"])
def test_an_audit_that_is_read_again_is_the_same(tmp_path, kind):
    settings = {}
    if kind == "images":
        source = write_images(tmp_path / "photos", per_class=20)
        (source / "dark" / "bad.png").write_bytes(b"no image")
        settings = {"skip_bad": True}
    elif kind == "table":
        x, y = blobs(90)
        np.savez(tmp_path / "blobs.npz", x=x, y=y)
        source = tmp_path / "blobs.npz"
    else:
        source = write_texts(tmp_path / "texts.csv", count=90)
        settings = {"label": "stars", "features": "text"}
    if kind == "features":
        np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(90, 3)))
        settings["features"] = tmp_path / "x.npy"
    if kind == "test set":
        settings["test"] = tmp_path / "texts.csv"
    recipe = replace(FLIPPED, epochs=3)
    found = audit(source, recipe, folder=tmp_path / "audit", **settings)
    again = audit(folder=tmp_path / "audit", resume=True)
    assert again.issues.equals(found.issues)
    assert again.summary() == found.summary()
    assert again.detection == found.detection
    assert again.data.kind == found.data.kind
    assert again.data.given.equal(found.data.given)
    assert list(again.data.ids) == list(found.data.ids)
    assert again.checks.table(again.labels.ids).equals(found.checks.table(found.labels.ids))
    for path in (tmp_path / "one.html", tmp_path / "two.html"):
        write_report(found if path.name == "one.html" else again, path)
    one, two = ((tmp_path / name).read_text() for name in ("one.html", "two.html"))
    time = re.compile(r"<dt>time</dt><dd>.*?</dd>")
    assert time.sub("", one) == time.sub("", two)
    state, other = found.model.state_dict(), again.model.state_dict()
    assert all(state[name].equal(other[name]) for name in state)


def test_data_in_memory_need_not_be_given_for_new_answers(tmp_path):
    x, y = blobs(60)
    found = audit((x, y), SHORT, folder=tmp_path / "audit")
    again = audit(folder=tmp_path / "audit", resume=True, reviewed={"7": "2"})
    assert again.findings.as_json() == found.with_reviewed({"7": "2"}).findings.as_json()
    with pytest.raises(AbstainError, match="data in memory, which cannot be loaded again"):
        _ = again.data
    given = audit((x, y), folder=tmp_path / "audit", resume=True)
    assert given.data.inputs.equal(found.data.inputs)
    assert given.reviewed == {"7": "2"}
    with pytest.raises(AbstainError, match="source must be what was audited"):
        audit((x[:50], y[:50]), folder=tmp_path / "audit", resume=True)


def test_an_audit_of_probabilities_takes_new_answers_too(tmp_path):
    x, y = blobs(60)
    found = audit((x, y), probabilities=0.9 * np.eye(3)[y] + 0.1 / 3, folder=tmp_path / "audit")
    again = audit(folder=tmp_path / "audit", resume=True, reviewed={"7": "2"})
    assert again.findings.as_json() == found.with_reviewed({"7": "2"}).findings.as_json()
    assert again.model is again.run is None
