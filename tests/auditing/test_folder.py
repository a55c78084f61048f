"""The folder of a finished audit, read again."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import abstain
from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.integrations.label_studio import export_label_studio
from abstain.report.to_check import export_sample

from audits import blobs, rows_of, saved, write_texts

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
    with pytest.raises(AbstainError, match="audit must be whole, got"):
        AuditFolder.open(found.folder)


def test_what_a_verdict_is_computed_from_is_read_as_it_was_kept(found):
    judged, evidence = AuditFolder.open(found.folder).judged, found.verdict.evidence
    assert judged.given.tolist() == found.given.tolist()
    assert judged.true.tolist() == found.data.true.tolist()
    assert judged.evidence.memorised == evidence.memorised
    for name in ("log_odds", "rival", "rival_share", "abstention"):
        np.testing.assert_array_equal(getattr(judged.evidence, name), getattr(evidence, name))
    assert judged.held_out is found.held_out is None


def test_what_was_held_out_is_kept(tmp_path):
    x, y = blobs(60)
    p = 0.9 * np.eye(3)[(y + (np.arange(60) < 9)) % 3] + 0.1 / 3
    found = audit((x, y), probabilities=p, folder=tmp_path / "audit")
    again = AuditFolder(found.folder).judged.held_out
    assert again.accuracy == found.held_out.accuracy == 0.85
    assert again.standard_error == found.held_out.standard_error


def test_groups_of_identical_samples_are_kept(tmp_path):
    x, y = blobs(60)
    x, y = np.concatenate([x, x[[7, 3, 3]]]), np.concatenate([y, y[[7, 3, 3]] + [1, 1, 0]])
    found = audit((x, y % 3), SHORT, folder=tmp_path / "audit")
    again = AuditFolder.open(tmp_path / "audit").judged.duplicates
    assert found.duplicates.members.tolist() == [3, 61, 62, 7, 60]
    assert again.members.tolist() == found.duplicates.members.tolist()
    assert again.group.tolist() == found.duplicates.group.tolist()


def test_a_folder_without_evidence_says_how_to_add_it(found):
    path = found.folder / "evidence.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["duplicates"]), path)
    with pytest.raises(AbstainError, match=r"must hold 'duplicates', .*abstain audit --resume"):
        _ = AuditFolder(found.folder).judged
    path.unlink()
    with pytest.raises(AbstainError, match=r"must hold evidence.*abstain audit --resume"):
        _ = AuditFolder(found.folder).judged


def test_evidence_that_is_cut_short_is_refused(found):
    (found.folder / "evidence.parquet").write_bytes(b"PAR1")
    with pytest.raises(AbstainError, match="must be as abstain wrote it"):
        _ = AuditFolder(found.folder).judged
