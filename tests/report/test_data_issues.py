import numpy as np
import torch

from abstain import Recipe, audit
from abstain.report.data_issues import data_issues, leaked, skipped_checks
from abstain.report.page import render


def test_dark_photos_are_counted_and_shown():
    photos = torch.randint(60, 256, (40, 3, 16, 16), dtype=torch.uint8)
    photos[5] //= 12
    recipe = Recipe(epochs=1, warm_up=0, batch=8)
    found = audit((photos, np.arange(40) % 2), recipe, backbone="none")
    shown = {issue.words: issue for issue in data_issues(found)}
    assert shown["dark"].samples == 1
    assert [index for index, _ in shown["dark"].examples] == [5]
    page = render(found)
    assert "Other data issues" in page
    assert "<b>1</b> dark" in page


def test_near_duplicates_are_shown_beside_each_other_with_their_labels():
    photos = torch.randint(60, 256, (40, 3, 16, 16), dtype=torch.uint8)
    photos[[23, 31, 2]] = photos[[4, 7, 9]]
    given = np.array(["cat", "dog"])[np.arange(40) % 2]
    found = audit((photos, given), Recipe(epochs=1, warm_up=0, batch=8), backbone="none")
    shown = {issue.words: [index for index, _ in issue.examples] for issue in data_issues(found)}
    pairs = [shown["near duplicates"][k : k + 2] for k in range(0, 6, 2)]
    assert sorted(map(sorted, pairs)) == [[2, 9], [4, 23], [7, 31]]
    assert sorted(shown["near duplicates with different labels"]) == [2, 4, 9, 23]
    assert "<p><b><bdi>cat</bdi></b> " in render(found).split("Other data issues")[1]


def test_leaked_samples_stand_beside_their_twins():
    photos = torch.randint(0, 256, (40, 3, 16, 16), dtype=torch.uint8)
    test = torch.randint(0, 256, (9, 3, 16, 16), dtype=torch.uint8)
    test[2] = photos[5]
    recipe = Recipe(epochs=1, warm_up=0, batch=8)
    pair = (photos, np.arange(40) % 2), (test, np.arange(9) % 2)
    found = audit(pair[0], recipe, backbone="none", test=pair[1])
    (twins,) = leaked(found)
    assert (twins.index, twins.test_index) == (5, 2)
    assert twins.shown == twins.test_shown
    page = render(found)
    assert "Data leakage" in page
    assert page.count(twins.shown.source) >= 2
    assert not any("test" in issue.words for issue in data_issues(found))


def test_a_column_that_gives_the_label_away_is_named():
    rng = np.random.default_rng(0)
    label = np.arange(200) % 2
    rows = np.column_stack([rng.normal(size=200), label + 0.01 * rng.normal(size=200)])
    found = audit((rows, label), Recipe(epochs=1, warm_up=0, batch=16))
    assert "gives the label away" in render(found)


def test_nothing_is_said_where_nothing_else_was_looked_for():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    found = audit((rows, np.arange(60) % 2), Recipe(epochs=1, warm_up=0), check=["labels"])
    assert data_issues(found) == []
    assert "Other data issues" not in render(found)


def test_skipped_checks_are_no_good_news():
    photos = torch.randint(60, 256, (40, 3, 16, 16), dtype=torch.uint8)
    recipe = Recipe(epochs=1, warm_up=0, batch=8)
    found = audit((photos, np.arange(40) % 2), recipe, backbone="none")
    assert list(skipped_checks(found)) == ["duplicates", "outliers", "groups"]
    page = render(found)
    assert "Skipped, in full or in part: outliers (there are no features of the inputs" in page
