"""Who has which labels before them."""

import pytest

from abstain.review.leases import Leases

from review_client import upcoming


def test_a_label_is_left_when_no_page_of_its_person_shows_it():
    leases = Leases()
    for visit in ("one", "other"):
        leases.take([5], "ann")
        leases.show([5, 6], visit)  # 6 was given to nobody
    leases.leave("bob", "one")
    leases.leave("ann", "one")
    assert leases.taken(5, "bob")
    leases.leave("ann", "other")
    assert not leases.taken(5, "bob")
    assert len(leases) == 0


def test_a_label_that_goes_to_another_person_is_on_none_of_the_first_ones_pages():
    leases = Leases(seconds=-1)  # over at once
    leases.take([5], "ann")
    leases.show([5], "hers")
    leases.seconds = 60
    leases.take([5], "bob")
    leases.show([5], "his")
    leases.leave("ann", "hers")
    assert leases.taken(5, "ann")


@pytest.mark.parametrize("asked", [{}, {"mode": "verify"}, {"like": 0}])
def test_a_page_that_is_closed_leaves_its_labels_to_others(photos, page, asked):
    with page(photos) as client:
        hers = {x["row"] for x in upcoming(client, visit="a", **asked)}
        upcoming(client, visit="b", **asked)  # the same ones, on a second page of hers
        for visit, is_left in (("a", False), ("b", True)):
            client.post("/api/leave", json={"who": "ann", "visit": visit})
            his = {x["row"] for x in upcoming(client, who="bob", visit=visit, **asked)}
            assert bool(hers & his) == is_left
            client.post("/api/leave", json={"who": "bob", "visit": visit})
