import json
from statistics import fmean

import backbones_page

from abstain.data.free_text import most_categories
from abstain.embed import choice, joined

TEXT = backbones_page.PAGE.read_text(encoding="utf-8")


def test_the_page_shows_what_the_results_say():
    assert backbones_page.page() == TEXT


def test_the_page_names_the_size_up_to_which_images_are_learnt_from_scratch():
    assert f"grey images up to {choice._DRAWING} pixels" in TEXT


def test_the_page_names_what_counts_as_categories_and_how_texts_are_scaled():
    assert f"at most {most_categories(10**6)} different ones" in TEXT
    assert f"√d numbers, {256 ** (1 - 2 * joined.SHRINK):.0f} for WordLlama" in TEXT


def test_whichever_table_is_left_out_the_scale_that_is_used_has_the_best_ap():
    path = backbones_page.ROOT / "results/mixed-tables.json"
    found = json.loads(path.read_text(encoding="utf-8"))["sets"]
    ways = [x for x in next(iter(found.values())) if x.startswith("joined")]
    for left_out in found:
        mean = {
            way: fmean(row[way]["average_precision"] for x, row in found.items() if x != left_out)
            for way in ways
        }
        assert max(mean, key=mean.get) == "joined"
    unscaled, used = (found["product_match"][x]["auroc"] for x in ("joined, unscaled", "joined"))
    assert unscaled < used
