"""Labels to check at random: the table that a person gets."""

import numpy as np
import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.exporting.to_check import export_sample

from audits import answer, audited_blobs, blobs, rows_of, truth_of, write_images, write_texts


@pytest.fixture
def found(tmp_path):
    return audited_blobs(tmp_path)


def test_texts_and_images_to_check_are_shown(tmp_path):
    texts = write_texts(tmp_path / "reviews.csv", count=60)
    audit(texts, Recipe(epochs=2), label="stars", features="text", folder=tmp_path / "texts")
    export_sample(AuditFolder.open(tmp_path / "texts"), tmp_path / "texts.csv", 10)
    assert all("day" in row["text"] for row in rows_of(tmp_path / "texts.csv"))
    write_images(tmp_path / "photos", per_class=10)
    audit(tmp_path / "photos", Recipe(epochs=2), folder=tmp_path / "images")
    export_sample(AuditFolder.open(tmp_path / "images"), tmp_path / "images.csv", 10)
    for row in rows_of(tmp_path / "images.csv"):
        assert (tmp_path / row["image"]).exists()


def test_data_in_memory_are_checked_by_their_ids(tmp_path):
    x, y = blobs(60)
    found = audit((x, y), probabilities=0.9 * np.eye(3)[y] + 0.1 / 3, folder=tmp_path / "audit")
    export_sample(AuditFolder.open(tmp_path / "audit"), tmp_path / "to-check.csv", 20)
    rows = rows_of(tmp_path / "to-check.csv")
    assert list(rows[0]) == ["id", "given_label", "checked_label", "unsure_or_drop"]
    answer(tmp_path / "to-check.csv", {row["id"]: row["given_label"] for row in rows})
    assert found.with_reviewed(tmp_path / "to-check.csv").findings.verified.counted == 20


def test_answers_are_not_written_over(found, tmp_path):
    saved, path = AuditFolder.open(found.folder), tmp_path / "to-check.csv"
    export_sample(saved, path, 5)
    answer(path, truth_of(found), 2)
    with pytest.raises(AbstainError, match=r"must not write over answers, got .* with 2 answers"):
        export_sample(saved, path, 10)
    audit(folder=found.folder, resume=True, reviewed=path)
    export_sample(saved, path, 10)
    assert [row["checked_label"] != "" for row in rows_of(path)] == [True] * 2 + [False] * 8
    path.write_bytes("id,checked_label\n1,spam é\n".encode("latin-1"))
    with pytest.raises(AbstainError, match="save it as UTF-8"):
        export_sample(saved, path, 10)


@pytest.mark.parametrize("size", [0, 151])
def test_a_size_beyond_the_labels_is_refused(found, tmp_path, size):
    with pytest.raises(AbstainError, match=r"size must lie in \[1, 150\] .all labels., got"):
        export_sample(AuditFolder.open(found.folder), tmp_path / "to-check.csv", size)


def test_a_sample_is_never_written_over_a_file_of_the_audit(found):
    with pytest.raises(AbstainError, match="no file of the source or of the audit"):
        export_sample(AuditFolder.open(found.folder), found.folder / "issues.csv", 10)
