"""A sample as a person sees it: safe pictures, marked words, and which samples are alike.

Tests of as_json.py, pictures.py and fingerprint.py, of which test_fingerprint.py has more.
"""

import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tickets import WORDS, tickets

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.review.session import Session
from abstain.showing.as_json import AuditedSamples
from abstain.showing.pictures import LARGEST_PICTURE

from audits import HOSTILE, write_images
from review_client import decide, settled, upcoming

PLAIN = Recipe(epochs=8, warm_up=1)


def test_neighbours_are_of_the_given_and_the_proposed_class(photos, page):
    with page(photos) as client:
        first = upcoming(client)[0]
        groups = client.get("/api/near", params={"row": first["row"]}).json()
        assert [x["class"] for x in groups] == [first["given"], first["proposed"]]
        for group in groups:
            assert 1 <= len(group["samples"]) <= 4
            assert first["row"] not in [x["row"] for x in group["samples"]]


def test_neighbours_go_by_embeddings_where_the_audit_had_some(tmp_path, page):
    """Each image lies beside one other, whatever the two look like."""
    write_images(tmp_path / "photos")
    names = sorted((tmp_path / "photos").rglob("*.png"), key=lambda path: path.as_posix())
    rng = np.random.default_rng(0)
    features = rng.normal(size=(len(names) // 2, 32)).repeat(2, axis=0)
    features[:, 0] += [3 * (path.parent.name == "dark") for path in names]
    features += rng.normal(size=features.shape) * 0.01
    np.save(tmp_path / "own.npy", features.astype(np.float32))
    audit(tmp_path / "photos", PLAIN, features=tmp_path / "own.npy", folder=tmp_path / "audit")
    with page(tmp_path / "audit") as client:
        assert client.get("/api/about").json()["kind"] == "image"
        answer = client.get("/api/picture", params={"row": 4})
        assert answer.headers["content-type"] == "image/png"
        client.session.shown.prefer(np.ones(len(names), bool))
        groups = client.get("/api/near", params={"row": 4}).json()
        nearest = {x["class"]: x["samples"][0]["row"] for x in groups}
        assert nearest[int(client.session.queue.given[4])] == 5


def test_neighbours_go_by_the_backbone_of_the_audit(tmp_path, page):
    """The nearest by meaning has no word in common; another text shares a word."""
    texts = [f"{a} {b}" for a in ["stone", "cloud", "engine", "law"] for b in ["red", "old", "new"]]
    alike = ["my puppy", "a dog", "my tax law"]
    rows = [(text, "ab"[k % 2]) for k, text in enumerate(texts)] + [(text, "a") for text in alike]
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(f"{x},{y}\n" for x, y in rows))
    nearest = {}
    for name in ("small:wordllama", "none"):
        place = tmp_path / name.replace(":", "-")
        audit(tmp_path / "t.csv", Recipe(epochs=2, warm_up=1), backbone=name, folder=place)
        with page(place) as client:
            client.session.shown.prefer(np.ones(len(rows), bool))
            groups = client.get("/api/near", params={"row": len(texts)}).json()
            nearest[name] = next(x["samples"][0]["text"] for x in groups if x["class"] == 0)
    assert nearest == {"small:wordllama": "a dog", "none": "my tax law"}


def test_neighbours_of_a_fine_tuned_audit_go_by_its_backbone_as_it_was(tmp_path, page):
    write_images(tmp_path / "photos")
    (tmp_path / "mean.py").write_text(
        "import torch\n"
        "class Mean(torch.nn.Module):\n"
        "    size = 8\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.ones(3))\n"
        "    def forward(self, images): return images.mean((2, 3)) * self.scale\n"
    )
    recipe = Recipe.of("auto", epochs=3, batch=8, finetune=True, augment=False)
    name = f"{tmp_path / 'mean.py'}:Mean"
    audit(tmp_path / "photos", recipe, backbone=name, folder=tmp_path / "audit")
    with page(tmp_path / "audit") as client:
        answer = client.get("/api/near", params={"row": 4})
        assert answer.status_code == 200
        assert any(group["samples"] for group in answer.json())


def test_a_backbone_that_is_gone_leaves_neighbours_by_words(texts, page, caplog):
    path = texts / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "backbone": "small:gone"}))
    about = {"kind": "backbone", "backbone": "small:gone", "of": "text"}
    (texts / "encoder.json").write_text(json.dumps(about))
    with page(texts) as client:
        assert all(x["samples"] for x in client.get("/api/near", params={"row": 3}).json())
    assert "without the backbone of the audit" in caplog.text


def test_text_has_its_likely_cause_marked(texts, page):
    with page(texts) as client:
        item = upcoming(client)[0]
        words = {item["text"][a:b].lower(): of for a, b, of in item["marks"]}
        classes = client.get("/api/about").json()["classes"]
        good = {"fine", "bright", "clever", "kind"}
        expected = {
            word: "proposed" if classes[item["proposed"]] == ("good" if word in good else "bad")
            else "given"
            for word in words
        }  # fmt: skip
        assert words
        assert words == expected


def test_a_row_has_its_texts_and_its_neighbours_by_them(tmp_path, page):
    tickets().to_csv(tmp_path / "t.csv", index=False)
    audit(tmp_path / "t.csv", Recipe(epochs=6, warm_up=1, flip=0.1), folder=tmp_path / "audit")
    with page(tmp_path / "audit") as client:
        item = upcoming(client)[0]
        assert [x["name"] for x in item["columns"]] == ["priority", "created", "hours"]
        assert [x["name"] for x in item["texts"]] == ["description", "comment"]
        description = item["texts"][0]
        assert description["text"] == tickets()["description"][item["row"]]
        marked = {description["text"][a:b]: of for a, b, of in description["marks"]}
        classes = client.get("/api/about").json()["classes"]
        for word, of in marked.items():
            assert word in WORDS[classes[item[of]]]
        assert marked
        client.session.shown.prefer(np.ones(160, bool))
        groups = client.get("/api/near", params={"row": item["row"]}).json()
        assert all(len(x["samples"]) == 4 and x["samples"][0]["texts"] for x in groups)
        before = client.session.shown.same.fingerprint()
    changed = tickets()
    changed.loc[3, "description"] += "!"
    changed.to_csv(tmp_path / "t.csv", index=False)
    assert AuditedSamples(AuditFolder.open(tmp_path / "audit")).same.fingerprint() != before


def test_moved_data_are_refused_and_decisions_kept(tmp_path, page):
    write_images(tmp_path / "photos")
    audit(tmp_path / "photos", PLAIN, folder=tmp_path / "audit")
    with page(tmp_path / "audit") as client:
        row = upcoming(client)[0]["row"]
        decide(client, row, "dark")
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    with pytest.raises(AbstainError, match="decisions are kept"):
        Session(tmp_path / "audit")
    (tmp_path / "elsewhere").rename(tmp_path / "photos")
    with page(tmp_path / "audit") as client:
        assert settled(client)["decided"] == 1


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_changed_data_are_refused_and_decisions_kept(tmp_path, page, change):
    write_images(tmp_path / "photos")
    audit(tmp_path / "photos", PLAIN, folder=tmp_path / "audit")
    with page(tmp_path / "audit") as client:
        decide(client, upcoming(client)[0]["row"], "dark")
    victim = tmp_path / "photos" / "dark" / "3.png"
    if change == "removed":
        victim.unlink()
    else:
        Image.new("L", (50, 50)).save(victim)
    with pytest.raises(AbstainError, match="all decisions are kept"):
        Session(tmp_path / "audit")


def rewritten(path):
    """Another picture of the same size, to the byte, as a second look would take it."""
    path.write_bytes(path.read_bytes()[:-20] + bytes(20))
    os.utime(path, (1, 1))


def test_a_picture_that_was_replaced_by_one_of_equal_size_is_noticed(tmp_path, page):
    write_images(tmp_path / "photos")
    audit(tmp_path / "photos", PLAIN, folder=tmp_path / "audit")
    with page(tmp_path / "audit") as client:
        row = upcoming(client)[0]["row"]
        decide(client, row, "dark")
        decided, other = client.session.ids[row], client.session.ids[(row + 1) % 60]
    victim = tmp_path / "photos" / decided
    content = victim.read_bytes()
    os.utime(victim, (2, 2))  # touched, but the same
    Session(tmp_path / "audit").close()
    rewritten(tmp_path / "photos" / other)  # of which nobody decided anything
    Session(tmp_path / "audit").close()
    rewritten(victim)
    with pytest.raises(AbstainError, match=f"{decided} changed since.*all decisions are kept"):
        Session(tmp_path / "audit")
    victim.write_bytes(content)
    Session(tmp_path / "audit").close()


def test_a_text_that_was_changed_is_noticed_wherever_it_stands(texts, page, monkeypatch):
    """Not all of many texts are compared, but those that were decided on are."""
    monkeypatch.setattr("abstain.showing.fingerprint.CHECKED", 1)
    with page(texts) as client:
        decide(client, 7, "bad")
    path = Path(json.loads((texts / "summary.json").read_text())["sources"]["train"])
    before = path.read_text()
    lines = before.splitlines()
    lines[8] = lines[8].replace("day", "year")
    try:
        path.write_text("\n".join(lines) + "\n")
        with pytest.raises(AbstainError, match="7 changed since they were decided on"):
            Session(texts)
    finally:
        path.write_text(before)


@pytest.fixture
def odd_photos(tmp_path):
    """Images, to which a test adds odd ones before they are looked at."""
    write_images(tmp_path / "photos")
    audit(tmp_path / "photos", PLAIN, folder=tmp_path / "audit")
    return tmp_path


def row_of(client, id_):
    return client.session.row[id_]


def test_a_link_out_of_the_folder_is_not_followed(odd_photos, page):
    secret = odd_photos / "secret.png"
    victim = odd_photos / "photos" / "dark" / "3.png"
    shutil.copy(victim, secret)
    victim.unlink()
    victim.symlink_to(secret)
    with page(odd_photos / "audit") as client:
        answer = client.get("/api/picture", params={"row": row_of(client, "dark/3.png")})
        assert answer.status_code == 422
        assert "link out of the folder" in answer.json()["error"]


def test_a_link_within_the_folder_is_followed(odd_photos, page):
    victim = odd_photos / "photos" / "dark" / "3.png"
    victim.unlink()
    victim.symlink_to(odd_photos / "photos" / "dark" / "4.png")
    with page(odd_photos / "audit") as client:
        answer = client.get("/api/picture", params={"row": row_of(client, "dark/3.png")})
        assert answer.headers["content-type"] == "image/png"


def test_an_oversized_picture_is_refused_before_it_is_decoded(odd_photos, page):
    side = int(LARGEST_PICTURE**0.5) + 1
    Image.new("1", (side, side)).save(odd_photos / "photos" / "dark" / "3.png")
    with page(odd_photos / "audit") as client:
        answer = client.get("/api/picture", params={"row": row_of(client, "dark/3.png")})
        assert answer.status_code == 422
        assert "too many" in answer.json()["error"]


def test_what_is_called_a_picture_and_is_none_is_not_served(odd_photos, page):
    victim = odd_photos / "photos" / "dark" / "3.png"
    victim.write_bytes(victim.read_bytes()[:50] + b"<script>alert(1)</script>")
    with page(odd_photos / "audit") as client:
        answer = client.get("/api/picture", params={"row": row_of(client, "dark/3.png")})
        assert answer.status_code == 422
        assert "script" not in answer.text


def test_large_pictures_are_made_smaller(odd_photos, page):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (1200, 1600, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(odd_photos / "photos" / "dark" / "3.png")
    with page(odd_photos / "audit") as client:
        row = row_of(client, "dark/3.png")
        answer = client.get("/api/picture", params={"row": row, "side": 640})
        assert answer.headers["content-type"] == "image/jpeg"
        assert Image.open(io.BytesIO(answer.content)).size == (640, 480)


def test_markup_in_a_text_stays_a_text(texts, page):
    with page(texts) as client:
        answer = client.get("/api/next", params={"who": "ann", "count": 200})
        assert answer.headers["content-type"] == "application/json"
        hostile = [x for x in answer.json()["items"] if HOSTILE[:9] in x["text"]]
        assert len(hostile) == 1
        assert json.dumps(hostile[0])
