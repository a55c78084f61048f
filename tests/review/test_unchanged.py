"""Tests of the check that a decided sample is still the one that was decided on."""

import shutil

import pytest
from PIL import Image, ImageOps
from review_fixtures import PLAIN

from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.cli import main
from abstain.review.export import export_corrected
from abstain.review.session import Session

from audits import rows_of
from review_client import decide, settled, upcoming


@pytest.fixture
def own(made, tmp_path):
    """An audit of photos that a test may change."""
    shutil.copytree(made / "photos", tmp_path / "photos")
    audit(tmp_path / "photos", PLAIN, folder=tmp_path / "own")
    return tmp_path / "own"


def replace(path):
    """Put another picture in its place."""
    with Image.open(path) as image:
        other = ImageOps.invert(image.convert("RGB"))
    other.save(path)


def run(*words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code


EXPORTS = (
    ("corrected", "x.csv"),
    ("corrected", "x", "--copies"),
    ("corrected", "y"),
    ("cleaned", "c.csv"),
    ("cleaned", "r.csv", "--fix", "reviewed"),
    ("label-studio", "t.json"),
)


def test_no_export_puts_another_picture_under_a_decision(own, page, tmp_path, capsys):
    with page(own) as client:
        first = upcoming(client)[0]
        decide(client, first["row"], "light")
        settled(client)
    photo = tmp_path / "photos" / first["id"]
    kept = photo.read_bytes()
    for to, out, *more in EXPORTS:
        assert run("export", own, "--to", to, "--out", tmp_path / f"before-{out}", *more) == 0
    replace(photo)
    capsys.readouterr()
    for to, out, *more in EXPORTS:
        assert run("export", own, "--to", to, "--out", tmp_path / out, *more) == 2
        error = capsys.readouterr().err
        assert f"got {first['id']} changed since" in error
        assert "put them back" in error
        assert error.count("\n") == 1
        assert not (tmp_path / out).exists()
    assert run("audit", "--resume", own) == 0  # goes by ids alone
    photo.write_bytes(kept)
    for to, out, *more in EXPORTS:
        assert run("export", own, "--to", to, "--out", tmp_path / out, *more) == 0


def test_the_page_exports_no_other_picture_under_a_decision(own, page, tmp_path):
    with page(own) as client:
        first = upcoming(client)[0]
        decide(client, first["row"], "light")
        replace(tmp_path / "photos" / first["id"])
        for what in ("corrected", "cleaned"):
            answer = client.get("/api/export", params={"what": what})
            assert answer.status_code == 400
            assert first["id"] in answer.json()["error"]
        assert client.get("/api/export", params={"what": "log"}).status_code == 200


def test_a_session_refuses_by_name(own, page, tmp_path):
    from abstain.errors import AbstainError

    with page(own) as client:
        first = upcoming(client)[0]
        decide(client, first["row"], "light")
    photo = tmp_path / "photos" / first["id"]
    photo.write_bytes(next(tmp_path.glob("photos/light/1.png")).read_bytes() + b"more")
    with pytest.raises(AbstainError, match=f"got {first['id']} changed since"):
        Session(own)


def test_answers_that_came_in_by_a_file_alone_are_exported(photos, tmp_path):
    one, two = AuditFolder.open(photos).ids[:2]
    (tmp_path / "answers.csv").write_text(
        f"id,checked_label,unsure_or_drop\n{one},light,\n{two},,drop\n"
    )
    words = ("audit", "--resume", photos, "--reviewed", tmp_path / "answers.csv")
    assert run(*words) == 0
    assert run("export", photos, "--to", "corrected", "--out", tmp_path / "x.csv") == 0
    rows = {x["id"]: x for x in rows_of(tmp_path / "x.csv")}
    assert rows[one]["corrected_label"] == "light"
    assert rows[one]["decided_by"] == "file"
    assert rows[two]["decision"] == "drop"
    Session(photos).close()  # the page goes on with them
    assert export_corrected(AuditFolder.open(photos), tmp_path / "y.csv").dropped == 1
