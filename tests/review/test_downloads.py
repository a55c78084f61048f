"""Tests of the downloads of the page, and of the log with a way back to each sample."""

import csv
import io
from pathlib import Path

import pytest

from audits import rows_of
from review_client import decide, upcoming


def download(client, what):
    answer = client.get("/api/export", params={"what": what})
    assert answer.status_code == 200, answer.text
    assert "attachment" in answer.headers["content-disposition"]
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_the_corrected_labels_are_those_of_the_export(photos, page):
    with page(photos) as client:
        first, second, *_ = upcoming(client)
        decide(client, first["row"], "light")
        decide(client, second["row"], kind="drop")
        rows = {x["id"]: x for x in download(client, "corrected")}
        assert rows[first["id"]]["corrected_label"] == "light"
        assert rows[second["id"]]["decision"] == "drop"
        assert len(rows) == 60
        cleaned = {x["id"]: x for x in download(client, "cleaned")}
        assert second["id"] not in cleaned
        assert cleaned[first["id"]]["label"] == "light"
        written = photos / "exports"
        assert (written / cleaned[first["id"]]["image"]).resolve().exists()
    assert len(rows_of(next(written.glob("*-cleaned.csv")))) == 59


def test_the_log_has_the_given_label_the_picture_and_a_way_back(photos, page):
    with page(photos) as client:
        item = upcoming(client)[0]
        decide(client, item["row"], "light")
        (entry,) = download(client, "log")
        classes = client.get("/api/about").json()["classes"]
        assert entry["given_label"] == classes[item["given"]]
        assert entry["picture"].endswith(item["id"])
        assert entry["sample"] == f"http://127.0.0.1:8700/#row={item['row']}"


def test_the_log_of_texts_has_no_picture(texts, page):
    with page(texts) as client:
        item = upcoming(client)[0]
        decide(client, item["row"], kind="drop")
        (entry,) = download(client, "log")
        assert "picture" not in entry
        assert entry["sample"].endswith(f"#row={item['row']}")


@pytest.mark.parametrize("what", ["", "summary.json", "../log"])
def test_nothing_else_can_be_had(photos, page, what):
    with page(photos) as client:
        answer = client.get("/api/export", params={"what": what})
        assert answer.status_code == 400
        assert not (photos / "exports").exists()


def test_a_download_holds_in_any_folder(photos, page):
    with page(photos) as client:
        item = upcoming(client)[0]
        decide(client, item["row"], "light")
        for what in ("corrected", "cleaned"):
            path = Path({x["id"]: x for x in download(client, what)}[item["id"]]["image"])
            assert path.is_absolute()
            assert path.exists()


def test_there_is_one_log_among_the_downloads(photos, page):
    with page(photos) as client:
        decide(client, upcoming(client)[0]["row"], "light")
        for what in ("log", "corrected", "cleaned"):
            download(client, what)
    assert len(list((photos / "exports").glob("*-log.csv"))) == 1


def test_downloads_are_not_written_through_a_link(photos, page, tmp_path):
    (tmp_path / "outside").mkdir()
    (photos / "exports").symlink_to(tmp_path / "outside")
    with page(photos) as client:
        for what in ("log", "corrected", "cleaned"):
            answer = client.get("/api/export", params={"what": what})
            assert answer.status_code == 400
            assert "got a link to" in answer.json()["error"]
    assert not list((tmp_path / "outside").iterdir())
