"""Which label comes next, for whom, and until when that pays."""

import numpy as np

from abstain.auditing.folder import AuditFolder
from abstain.review.queue import DECIDED, Filter, Queue
from abstain.scores.evidence import Evidence
from abstain.scores.verdict import judge

from review_client import decide, settled, upcoming


def two_pairs():
    """80 labels, 0 → 1 and 2 → 3 in turn, of equal evidence; 20 answers that the former are right
    and the latter wrong."""
    given, rival = np.tile([0, 2], 40), np.tile([1, 3], 40).astype(np.int32)
    odds = np.repeat(np.linspace(-3, -1, 40), 2).astype(np.float32)
    evidence = Evidence(
        log_odds=odds,
        rival=rival,
        rival_share=np.ones_like(odds),
        memorised=0.0,
        abstention=np.full_like(odds, np.nan),
    )
    return Queue(judge(evidence, given, 4)), {k: (0, 3)[k % 2] for k in range(20)}


def test_again_ranks_open_labels_by_the_decisions_on_their_pair():
    queue, answers = two_pairs()
    queue.state[list(answers)] = DECIDED
    assert queue.next(Filter(), "ann", 4)[0] == [20, 21, 22, 23]
    queue.rank(judge(queue.evidence, queue.given, 4, answers))
    assert queue.next(Filter(), "ann", 4)[0] == [21, 23, 25, 27]
    assert queue.doubt(21) > queue.doubt(20)
    of_one = queue.next(Filter(given=0), "ann", 2)[0]
    assert [k % 2 for k in of_one] == [0, 0]  # as likely as any: of this pair the worst were right
    # Another person is given others; what the first one holds stays hers.
    assert queue.next(Filter(), "bob", 2)[0] == [29, 31]


def test_decided_labels_keep_a_place_among_all_for_those_who_look_back():
    queue, answers = two_pairs()
    queue.state[list(answers)] = DECIDED
    queue.rank(judge(queue.evidence, queue.given, 4, answers))
    assert queue.next(Filter(state="decided"), "ann", 3)[0] == [1, 3, 5]
    every, left = queue.next(Filter(state="any"), "ann", 80)
    assert left == 80
    assert (np.diff([queue.doubt(k) for k in every]) <= 0).all()


def test_the_worst_labels_come_first_and_to_one_person_each(photos, page):
    issues = AuditFolder.open(photos).issues.column("id").to_pylist()
    with page(photos) as client:
        ann, bob = upcoming(client, "ann"), upcoming(client, "bob")
        assert [x["id"] for x in ann + bob] == issues[:10]
        assert [x["id"] for x in upcoming(client, "ann")] == issues[:5]
        have = ",".join(str(x["row"]) for x in ann)
        assert [x["id"] for x in upcoming(client, "ann", without=have)] == issues[10:15]


def test_filters_choose_by_pair_score_state_and_person(photos, page):
    with page(photos) as client:
        found = upcoming(client, given="0", proposed="1", count="50")
        assert found
        assert {(x["given"], x["proposed"]) for x in found} == {(0, 1)}
        every = [x["wrong"] for x in upcoming(client, count="60")]
        middle = sorted(every)[30]
        sure = upcoming(client, least=f"{middle:.9f}", count="60")
        assert [x["wrong"] for x in sure] == [p for p in every if p >= round(middle, 9)]
        decide(client, sure[0]["row"], "dark", who="ann")
        decide(client, sure[1]["row"], kind="unsure", who="ann")
        decide(client, sure[2]["row"], kind="skip", who="ann")
        assert [x["row"] for x in upcoming(client, state="unsure")] == [sure[1]["row"]]
        assert [x["row"] for x in upcoming(client, state="skip")] == [sure[2]["row"]]
        by_ann = upcoming(client, by="person:ann", state="any")
        assert [x["row"] for x in by_ann] == [sure[0]["row"]]
        assert upcoming(client, "ann", by="second", state="any") == []
        assert [x["row"] for x in upcoming(client, "bob", by="second", state="any")] == [
            sure[0]["row"]
        ]


def test_all_like_this_one_are_of_its_pair(photos, page):
    with page(photos) as client:
        first = upcoming(client)[0]
        found = upcoming(client, like=first["row"], count=20)
        assert found[0]["row"] == first["row"]
        pair = (first["given"], first["proposed"])
        assert {(x["given"], x["proposed"]) for x in found} == {pair}


def test_a_hint_says_when_going_on_no_longer_pays(photos, page):
    with page(photos) as client:
        assert settled(client)["pays"]
        while items := upcoming(client, count=50):
            for item in items:
                decide(client, item["row"], item["id"].split("/")[0])
        status = settled(client)
        assert status["last_wrong"] == 0
        assert not status["pays"]


def test_what_others_have_before_them_is_counted_only_where_nothing_is_left(photos, page):
    with page(photos) as client:
        first = client.get("/api/next", params={"who": "ann", "count": 60}).json()
        assert (len(first["items"]), first["held"]) == (60, 0)
        for who, held in (("bob", 60), ("ann", 0)):
            without = ",".join(str(x["row"]) for x in first["items"])
            asked = {"who": who, "without": without}
            answer = client.get("/api/next", params=asked).json()
            assert (answer["items"], answer["held"]) == ([], held)


def test_labels_most_like_one_of_a_class_as_given(photos, page):
    with page(photos) as client:
        row = upcoming(client)[0]["row"]
        items = upcoming(client, like=row, of=1)
        assert len(items) == 5
        assert {x["given"] for x in items} == {1}
        assert client.get("/api/next", params={"who": "a", "like": row, "of": 2}).status_code == 400


def test_orders_of_filters_are_kept_up_to_a_bound():
    """Each takes 8 bytes a label, and anybody can ask for as many as there are numbers."""
    queue, _ = two_pairs()
    first = Filter(given=0)
    for k in range(200):
        queue.next(Filter(least=k / 1000), "ann", 1)
        queue.next(first, "ann", 1)
    assert len(queue._filtered) <= 32
    assert queue.next(first, "ann", 2)[0] == [0, 2]
