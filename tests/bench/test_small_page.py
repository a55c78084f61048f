import json

import numpy as np
import small_page
from small_page import CLOSE, ERRORS, FIGURES, LINES, PAGE, Lines

from abstain.auditing.out_of_sample import SMALL

TEXT = PAGE.read_text(encoding="utf-8")


def by_hand(method, figure, errors, size):
    """The mean over sources of the means over sets, with plain loops."""
    of_source = {}
    for x in json.loads(small_page.RESULTS.read_text(encoding="utf-8"))["sets"]:
        if x["case"][2] in errors and x["case"][3] == size and method in x["methods"]:
            value = x["methods"][method][FIGURES.index(figure)]
            if value is not None:
                of_source.setdefault(x["source"], []).append(value)
    return sum(sum(x) / len(x) for x in of_source.values()) / len(of_source)


def test_the_page_is_what_the_committed_result_gives():
    assert small_page.page() == TEXT


def test_means_are_those_of_plain_loops():
    for errors in ERRORS.values():
        for method, figure in (("loo", "auroc"), ("cleanlab", "ap"), ("training", "proposals")):
            found = LINES.of(errors, 200).mean(method, figure)
            np.testing.assert_allclose(found, by_hand(method, figure, errors, 200))


def test_leave_one_out_ranks_no_worse_than_cleanlab_at_any_size():
    small = small_page.small(LINES)
    assert small.sizes[0] == 100
    for errors in ERRORS.values():
        for size in small.of(errors).sizes:
            part = small.of(errors, size)
            for figure, least in CLOSE.items():
                assert part.mean("loo", figure) - part.mean("cleanlab", figure) >= least


def test_it_is_the_choice_without_most_sources():
    found = small_page.chosen_without(LINES)
    assert sum(x == "loo" for x in found.values()) > 0.9 * len(found)


def test_a_source_is_chosen_for_by_the_others_alone():
    figures = dict.fromkeys(FIGURES, 0.5)

    def line(source, best):
        methods = {x: [*figures.values()] for x in small_page.METHODS}
        methods[best] = [0.9] * len(FIGURES)
        return {"case": [source, "table", "real", 100], "source": source, "methods": methods}

    lines = Lines([line("one", "loo"), line("two", "training"), line("three", "training")])
    assert small_page.chosen_without(lines)["one"] == "training"


def test_the_page_counts_sets_as_small_that_the_product_does():
    assert small_page.LARGEST == SMALL
