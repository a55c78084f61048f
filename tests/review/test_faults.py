"""Other faults of an audit in the same queue, and what else the page is told of a sample.

Tests of faults.py and of instructions.py.
"""

import numpy as np
import pytest
from PIL import Image

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.review.faults import WORDS, Faults

from audits import write_images
from review_client import decide, upcoming


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Photos, of which one is a copy in the other class, and one is nearly black."""
    place = tmp_path_factory.mktemp("planted")
    root = write_images(place / "photos", per_class=30, size=32)
    rng = np.random.default_rng(1)
    twin = Image.fromarray(rng.integers(0, 255, (32, 32), dtype=np.uint8))
    for name in ("dark/twin.png", "light/twin.png"):
        twin.save(root / name)
    black = rng.integers(0, 3, (32, 32), dtype=np.uint8)
    Image.fromarray(black).save(root / "dark" / "black.png")
    audit(root, Recipe(epochs=4, warm_up=1), folder=place / "audit")
    return place / "audit"


def test_rows_with_a_fault_are_those_of_the_table_worst_first(planted):
    found = AuditFolder.open(planted)
    ids = found.weights.column("id").to_pylist()
    faults = Faults(found, {id_: k for k, id_ in enumerate(ids)})
    table = found.issues.to_pandas()
    assert "conflicting_duplicate" in faults.rows
    for name, rows in faults.rows.items():
        flagged = table[table[f"is_{name}_issue"]]
        assert {ids[row] for row in rows.tolist()} == set(flagged["id"])
        score = dict(zip(table["id"], table[f"{name}_score"], strict=True))
        scores = [score[ids[row]] for row in rows.tolist()]
        assert scores == sorted(scores)
    one, other = (ids.index(x) for x in ("dark/twin.png", "light/twin.png"))
    assert (faults.twins(one), faults.twins(other)) == ([other], [one])
    assert "conflicting_duplicate" in faults.of(one)
    assert faults.twins(ids.index("dark/1.png")) == []


def test_other_faults_come_in_the_same_queue_and_are_decided_there(planted, page):
    with page(planted) as client:
        offered = {x["name"]: x["count"] for x in client.get("/api/about").json()["faults"]}
        assert offered["conflicting_duplicate"] == 2
        items = upcoming(client, fault="conflicting_duplicate")
        assert {x["id"] for x in items} == {"dark/twin.png", "light/twin.png"}
        assert all(WORDS["conflicting_duplicate"] in x["faults"] for x in items)
        near = client.get("/api/near", params={"row": items[0]["row"]}).json()
        assert near[0]["class"] is None
        assert [x["row"] for x in near[0]["samples"]] == [items[1]["row"]]
        assert near[0]["samples"][0]["given"] == items[1]["given"]
        decide(client, items[0]["row"], kind="drop")
        left = upcoming(client, fault="conflicting_duplicate")
        assert [x["row"] for x in left] == [items[1]["row"]]
        assert client.get("/api/next", params={"who": "ann", "fault": "x"}).status_code == 400


def test_instructions_beside_the_audit_are_handed_on(photos, page):
    with page(photos) as client:
        assert client.get("/api/about").json()["instructions"] == ""
    (photos / "instructions.md").write_bytes("# Hëllo".encode() + b"\xff")
    with page(photos) as client:
        assert client.get("/api/about").json()["instructions"] == "# Hëllo\ufffd"
