import json
import re
from statistics import fmean

import backbones_page
import embed_scale

from abstain.data.free_text import most_categories
from abstain.data.readers import decoders
from abstain.data.reading import MEMORY_BUDGET
from abstain.embed import choice, folds, joined
from abstain.embed.backbones import cached
from abstain.embed.store import shards
from abstain.support.duration import spoken

TEXT = backbones_page.PAGE.read_text(encoding="utf-8")


def test_the_page_shows_what_the_results_say():
    assert backbones_page.page() == TEXT


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


def test_the_page_names_the_numbers_by_which_auto_chooses():
    for text in (
        f"(up to {choice._DRAWING} pixels)",
        f"at least {choice._PLAIN:.0%} of an image, in the median of {choice._LOOKED_AT}",
        f"at most {cached.MOST_WEIGHTS // 10**6} million weights",
        f"at most {choice._PROBED:,} samples ({shards.SHARD:,}, if the slowest would take more "
        f"than {choice._PROBE_SECONDS} seconds",
        f"(`--budget`, {choice.BUDGET / 60:.0f} minutes by default)",
        f"`--budget {spoken(choice.BUDGET)}`",
    ):
        assert text in TEXT, text
    assert folds.FOLDS == 5  # "each head blind to a fifth"


def test_held_out_labels_tell_which_way_to_see_small_grey_images():
    for x in backbones_page._result("drawings")["cases"]:
        scratch, seen = x["none"], x["small:efficientnet-lite2"]
        better = scratch["auroc"] > seen["auroc"]
        assert better == (scratch["held_out"] > seen["held_out"])
        assert better == (x["plain"] >= choice._PLAIN)


def test_the_page_says_how_fast_photos_are_read_for_a_gpu():
    found = backbones_page._result("embed-cuda")
    assert f"{found['in_memory_share']:.0%} is reached with photos in memory" in TEXT
    assert f"decode {found['from_files_per_second']:,.0f} photos of 320 × 240" in TEXT
    assert f"decodes photos, if there are {decoders.WORTH:,} or more" in TEXT


def test_the_page_says_how_fine_tuning_was_chosen_and_how_long_a_fresh_process_takes():
    cases = backbones_page._result("finetune")["cases"]
    assert max(x["seconds"] for x in cases if x["way"] == "finetune") < 60  # the aim is met
    (before,) = (x for x in cases if x["way"] == "by-loss")
    tuned, frozen = re.search(r"loss ([\d.]+) against ([\d.]+)", before["comparison"]).groups()
    assert f"{frozen} for frozen features and {tuned} for the fine-tuned network" in TEXT
    (default,) = (x for x in cases if x["way"] == "default")
    figures = re.search(r"predicts (\S+) against (\S+) of (\S+) held-out", default["comparison"])
    tuned, frozen, labels = figures.groups()
    assert f"predicted {tuned} of {labels} held-out labels and frozen features {frozen}" in TEXT
    (scratch,) = (x for x in cases if x["way"] == "resnet18")
    assert f"ResNet-18 ran for {len(scratch['epochs'])} epochs" in TEXT
    sets = backbones_page._result("better-of-two")["sets"]
    real = sum(name.endswith("real") for name in sets)
    assert f"{real} sets with real errors and {len(sets) - real} with planted ones" in TEXT


def test_fine_tuning_of_texts_gains_and_loses_what_the_page_says():
    sets = backbones_page._result("backbones")["sets"]
    frozen, trained = backbones_page.MINILM, backbones_page.MINILM + backbones_page.TUNED
    both = {name: (x[frozen], x[trained]) for name, x in sets.items() if trained in x}
    better = [n for n, (x, y) in both.items() if x["average_precision"] < y["average_precision"]]
    (worse,) = both.keys() - better
    assert len(better) == 2
    assert worse == min(both, key=lambda name: sets[name]["samples"])
    before, after = both["weak_trec"]
    assert before["f1"] > after["f1"]
    assert sets["weak_trec"]["wrong"] > before["rate"] > after["rate"]


def test_features_on_disk_cost_what_the_page_says_and_change_no_result():
    both = [x for x in backbones_page._result("embed-scale") if "memory" in x]
    ratios = [x["disk"]["seconds"]["an epoch"] / x["memory"]["seconds"]["an epoch"] for x in both]
    assert f"up to {max(ratios):.1f} times as long" in TEXT
    assert max(ratios) < embed_scale.AIM
    for x in both:
        assert all(x["memory"][k] == x["disk"][k] for k in ("rate", "scores", "probabilities"))
    assert f"fit into memory ({MEMORY_BUDGET >> 30} GiB)" in TEXT


def test_the_bench_of_heads_is_of_what_the_page_says():
    found = backbones_page._result("heads")
    text = f"({found['hidden']} hidden units, dropout {found['dropout']}"
    assert text in TEXT
    assert f"the real labels of {len(found['sets'])} sets" in TEXT
    gains = {n: x["mlp"]["auroc"] - x["linear"]["auroc"] for n, x in found["sets"].items()}
    assert f"climate_fever, with {found['sets']['climate_fever']['samples']} labels" in TEXT
    assert abs(sum(x for n, x in gains.items() if n != "climate_fever")) / len(gains) < 0.001
