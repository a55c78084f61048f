"""Which label comes next, for whom, and until when that pays."""

from abstain.auditing.saved import SavedAudit

from review_client import decide, settled, upcoming


def test_the_worst_labels_come_first_and_to_one_person_each(photos, page):
    issues = SavedAudit.open(photos).issues.column("id").to_pylist()
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
