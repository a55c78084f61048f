"""Each number that README.md, CONTRIBUTING.md and docs/ show is that of the code or of a result.

Pages that scripts write whole have tests of their own: docs/audit-bench.md in
tests/bench/test_bench_verdict.py, docs/auto.md and docs/reproduction.md in
reproduction/tests/test_committed.py.
"""

import ast
import json
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import small_page
import verdict_details
import verdict_page
from cases import FOLDS
from verdict_tables import Rows

from abstain.auditing import findings, out_of_sample, verified
from abstain.embed import finetuning
from abstain.embed.backbones import base as backbone
from abstain.review import leases, queue
from abstain.scores import curve, verdict
from abstain.showing import fingerprint, pictures
from abstain.training import plan, recipe, trial
from abstain.training.loop import augmentation, step

ROOT = Path(__file__).parents[1]
WORDS = {3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 10: "ten", 50: "fifty"}
ORDINALS = {5: "fifth"}


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def result(name):
    return json.loads(page(f"results/{name}"))


def constants(name):
    """The plain values that a script names; it is not run, as it may need much to be imported."""
    found = {}
    for node in ast.parse(page(name)).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            targets, values = node.targets[0], node.value
            several = isinstance(targets, ast.Tuple)
            pairs = zip(targets.elts, values.elts, strict=True) if several else [(targets, values)]
            for target, value in pairs:
                with suppress(ValueError):
                    found[target.id] = ast.literal_eval(value)
    return found


def figures():
    """The sentences with figures, by page, as code and results give them."""
    rows, sampling = Rows(result("verdict.json")["cases"]), result("sampling.json")
    real, clean = rows.of("real"), rows.of("clean")
    sources, real_sources = ({x["source"] for x in some} for some in (rows, real))
    covers = real.mean("ledger", "covers"), real.by_source(lambda x: x["ledger"]["covers"]).mean()
    flagged = [sum(x[m]["flagged"] > 0.05 for x in clean) for m in ("ledger", "cleanlab")]
    checked = next(x for x in sampling["summary"] if (x["variant"], x["size"]) == ("real", 200))
    reviews = result("reviews.json")
    kept = {
        (which, noise): verdict_details.after_answers(
            verdict_details.rows_of(reviews, which), noise, "worst", 200
        )
        for which in ("before", "cases")
        for noise in ("real", "confused")
    }
    after = kept["cases", "real"]["covers"]
    seconds = reviews["speed"]["seconds"]
    scale = next(x for x in result("audit-scale.json") if (x["rows"], x["classes"]) == (10**7, 10))
    loss, epoch, audit_scale = (
        constants(f"bench/{x}.py") for x in ("loss", "epoch", "audit_scale")
    )
    keyboard = constants("src/abstain/cli/verify.py")
    load = result("review_load.json")
    page_speed = {x["labels"]: x for x in result("review.json")["rows"]}
    answers_in = next(x for x in result("new-answers.json")["rows"] if x["labels"] == 10**5)
    sizes = [x["labels"] for x in real]
    tuned = recipe.FINETUNE
    photos = [x for x in result("backbones.json")["sets"].values() if x["kind"] == "image"]
    gained = [
        np.mean([x[k]["auroc"] for x in photos]) for k in ("none", "small:efficientnet-lite2")
    ]
    wholes = [x for x in result("finetune.json")["cases"] if x["way"] == "finetune"]
    whole = {
        name: np.mean([x[name] for x in wholes]) for name in ("auroc_evidence", "test_accuracy")
    }
    whole["seconds"] = np.median([x["seconds"] for x in wholes])
    return {
        "README.md": [
            f"{result('backbones.json')['most']:,} at a time, a backbone lifts the AUROC of the "
            f"ranking from {gained[0]:.3f} to {gained[1]:.3f}",
            f"Trained on {result('finetune.json')['samples']:,} of them (`--finetune`), it ranks "
            f"with {whole['auroc_evidence']:.3f} and is right on {whole['test_accuracy']:.1%} of "
            f"test images, in {whole['seconds']:.0f} s on an H200",
            f"With a budget ({trial.BUDGET / 60:.0f} minutes by default on a GPU)",
            f"One mapping of {WORDS[len(fields(curve.Learnt))]} numbers",
            f"We use {len(real)} cases with **real** errors",
            f"from {len(real_sources)} sources",
            f"{WORDS[FOLDS]}-fold cross-validated",
            f"So the {verdict.CONFIDENCE:.0%} interval is wide. It covers in {covers[0]:.0%} of "
            f"the cases, {covers[1]:.0%} if every source weighs the same",
            f"more than 5% are flagged in {flagged[0]} of {len(clean)} such cases, by cleanlab in "
            f"{flagged[1]}.",
            f"measured** within about {100 * checked['width'] / 2:.0f} points",
            f"In {sampling['draws']:,} simulated draws from each of the {checked['cases']} cases "
            f"the {sampling['confidence']:.0%} interval covered in at least 93.5%.",
            f"is on the screen {page_speed[10**6]['milliseconds_median']:.0f} ms after a key, with "
            "a million labels too",
        ],
        "docs/audit.md": [
            f"{len(rows)} cases of {len(sources)} sources ({len(real)} of these cases, of "
            f"{len(real_sources)} sources, have real errors",
            f"A label with P(wrong) below {verdict._FROM:g} adds nothing to their number, one "
            f"above {verdict._WHOLE:g} a whole label",
            f"a ballast of {curve.BALLAST} answers",
            f"Their {verdict.CONFIDENCE:.0%} is how often they covered",
            f"with {verdict.CONFIDENCE:.0%} intervals |",
            f"with a {sampling['confidence']:.0%} interval; figures by class",
            f"at most one in {WORDS[round(1 / verified._GAPS)]} is left out",
            f"Fewer than {findings.ENOUGH} answers",
            f"from {findings.ENOUGH} answers with a class on it is measured",
            f"within {100 * keyboard['WITHIN']:.0f} points (`--within`)",
            f"after {keyboard['MOST']} answers (`--most`)",
            f"after 200 worst-first reviews the {verdict.CONFIDENCE:.0%} interval of the rest "
            f"covers in about {after:.0%} of the real cases",
            f"in the mean 200 worst-first reviews find {kept['cases', 'real']['found']:.0f} wrong "
            f"labels on real errors, and {kept['cases', 'confused']['found']:.0f} where",
            f"have {min(sizes)} to {max(sizes):,} samples",
            f"({answers_in['seconds']:.1f} s for 10⁵ labels)",
            f"**Evidence of small sets.** Sets of up to {out_of_sample.SMALL:,} samples",
            f"each model of a {WORDS[FOLDS]}-fold cross-validation lacks a {ORDINALS[FOLDS]}",
            f"up to {out_of_sample.SMALL:,} samples with features. The time",
            f"proposals right within {-100 * small_page.CLOSE['proposals']:.0f} points, at most "
            f"{small_page.TIMES} times as long",
            f"by hand, the limit of {out_of_sample.SMALL:,} samples",
        ],
        "docs/review.md": [
            f"After {findings.ENOUGH} answers",
            f"with a {sampling['confidence']:.0%} interval",
            f"more than one in {WORDS[round(1 / verified._GAPS)]}",
            f"in the last {queue.LAST} decisions",
            f"fewer than one in {WORDS[round(1 / queue.WORTH)]} of the next {queue.LAST}",
            f"({page_speed[10**5]['again_seconds']:.1f} s for 10⁵ labels; on the server "
            f"{seconds['1000000']:.1f} s for 10⁶ labels of {reviews['speed']['classes']} classes "
            f"and {reviews['speed']['decisions']:,} decisions)",
            f"for {WORDS[round(leases.LEASE / 60)]} minutes",
            f"(of more than {fingerprint.CHECKED:,}, some)",
            f"With {load['clients']} people who decide at once, a server killed "
            f"{WORDS[load['killed']['kills']]} times",
            f"{page_speed[10**6]['milliseconds_median']:.0f} ms after a key (median, 10⁶ labels)",
            f"a request takes {page_speed[10**5]['request_milliseconds_median']:.1f} ms with 10⁵ "
            "labels; without TCP_NODELAY "
            f"{page_speed[10**6]['without_nodelay_milliseconds_median']:.0f} and "
            f"{page_speed[10**5]['without_nodelay_request_milliseconds_median']:.0f} ms",
            f"at most 10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[round(np.log10(pictures.LARGEST_PICTURE))]} pixels",
        ],
        "docs/training.md": [
            "`--precision auto` is fp32; it is bf16 for batches of 2¹⁹ numbers or more (such as "
            f"512 × {step._MANY_NUMBERS // 512:,}) on a GPU or a processor with instructions for "
            "it (AMX, AVX512-BF16)",
            f"{tuned['learning_rate']} for the new last layer and a "
            f"{ORDINALS[round(1 / finetuning.ImageFineTuning.rate)]} of it for a backbone of "
            f"images ({finetuning.TextFineTuning.rate} of it for one of texts), "
            f"{tuned['epochs']} epochs, batches of {plan._LARGE_BATCH} from "
            f"{plan._LARGE_SET:,} samples on, else of {plan._SMALL_BATCH}.",
            f"Images up to {backbone._SMALL_IMAGE} pixels are scaled to "
            f"{finetuning._SMALL_INPUT}, others",
            f"half of at most {augmentation._JUDGED:,} images",
            f"If its {tuned['epochs']} epochs do not fit",
            f"below {trial.LEAST_EPOCHS} it is not tried",
            f"on a GPU, within {trial.BUDGET / 60:.0f} minutes",
        ],
        "docs/losses.md": [
            *(f"| {shape} | {target} |" for shape, target, _ in loss["CASES"]),
            f"The target for peak memory at {loss['MEMORY_CASE']} is {loss['MEMORY_GOAL']}.",
            f"are {epoch['TARGET_LOOP']} times one of cross-entropy in the same loop, and "
            f"{epoch['TARGET_PLAIN']} times one written the plain way",
            f"the ledger of {WORDS[audit_scale['EPOCHS']]} epochs",
            f"takes {scale['total']:.0f} seconds of one core and {scale['gib']:.1f} GiB for ten "
            "million labels of ten classes",
        ],
    }


FIGURES = figures()
# Numbers that are no figures: settings that a user types, names, and what slow tests check.
OTHERS = {
    "README.md": [
        *("check 200 labels", "shows `make demo`: 4,000 handwritten digits, 833 of which"),
        *("that 7 to 42%, most likely about 21% of them", "truth 20.8%"),
        *("flags 930 labels: 89.4% of these", "99.8% of all"),
        *(
            "The 100 worst",
            "CIFAR-10",
            "14 of 18 rows",
            "in all 18",
            "4 of 14 rows",
            "Ziyin et al., 2020",
            "Apache-2.0",
        ),
        "a handwritten 3 that was labelled 0",
    ],
    "docs/audit.md": [
        *("from 0 to 1", "row, from 0", "near 0 under", "m = 0", "ever reaches 0"),
        *("arXiv 2605.22591", "by less than 0.02 in AUROC"),
    ],
    "docs/losses.md": [
        *("Ziyin et al., 2020", "float32", "1,300 training images, 560 of them", "After 60 epochs"),
        *("right on 66.0% of the test images", "right on 94.8%", "the 560 labels", "97.3% are"),
        *("Left: with 40% wrong labels", "in (1, number of classes]"),
    ],
    "docs/review.md": [],
    "docs/training.md": [
        *("most 64 pixels", "answers the 90% of", "at most 5% wrong", "with 95% confidence"),
        *("row, from 0", "at least 0.9", "CIFAR-10"),
    ],
    "CONTRIBUTING.md": [
        "Python 3.11 or newer",
        "exits with 2",
        "(1, 10] for 10 classes, got 0.5",
    ],
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_those_of_code_and_results(name):
    text = page(name)
    assert [x for x in FIGURES[name] if x not in text] == []


@pytest.mark.parametrize("name", OTHERS)
def test_a_page_shows_no_number_that_nothing_checks(name):
    made = r"<!-- real errors.*?<!-- end -->|<!-- (small-\w+) -->.*?<!-- /\1 -->"
    text = re.sub(made, "", page(name), flags=re.DOTALL)  # tests of their own
    for code in (r"```.*?```", r"`[^`\n]*`", r"\]\([^)]*\)", r"(?m)^    [^\n]*$"):
        text = re.sub(code, "`code`", text, flags=re.DOTALL)
    for known in (*FIGURES.get(name, ()), *OTHERS[name]):
        known = re.sub(r"`[^`\n]*`", "`code`", known)
        text = text.replace(known, "")
    text = re.sub(r"^\d+\. ", "", text, flags=re.MULTILINE)  # numbers of a list
    assert re.findall(r".{0,30}(?<![\w])\d[\d.,]*%?.{0,20}", text) == []


def test_the_walk_for_newcomers_names_files_and_functions_that_are_there():
    text = page("CONTRIBUTING.md")
    names = re.findall(r"`((?:[\w.-]+/)+[\w.-]*|\w+\.\w+)[` ]", text)
    files = {x.strip("/") for x in names if x.endswith(("/", ".py", ".toml", ".md"))}
    tops = [ROOT / x for x in ("src/abstain", "tests", "bench", "docs", "reproduction")]
    paths = [*ROOT.iterdir(), *(x for top in tops for x in (top, *top.rglob("*")))]
    known = [f"/{x.relative_to(ROOT)}" for x in paths]
    assert len(files) > 40
    assert [x for x in files if not any(y.endswith(f"/{x}") for y in known)] == []
    walk = re.findall(r"^\d+\. `([\w/]+\.py)`, (`[^,:]*`)", text, re.MULTILINE)
    assert len(walk) == 10
    for file, functions in walk:
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", functions):
            assert re.search(rf"^ *(def|class) {name}\b", page(file), re.MULTILINE), name


def test_the_readme_says_of_training_what_its_page_does():
    text, auto = page("README.md"), page("docs/auto.md")
    won, rows = re.search(r"\*\*Score: (\d+) of (\d+) rows\*\* against the best of", auto).groups()
    assert f"our own runs of the baselines in {won} of {rows} rows" in text
    assert f"against the best number that the paper prints: {rows} of {rows} rows" in auto
    assert f"some of which are too low, in all {rows}." in text
    kept, images = re.search(r"at least as good in (\d+) of (\d+) rows with images", auto).groups()
    assert f"ahead in {int(images) - int(kept)} of {images} rows with images" in text
    clean = re.search(r"## Clean labels\n(.*?)\n## ", auto, re.DOTALL)[1]
    assert "On clean data it is no worse than cross-entropy." in text
    assert not re.search(r"\| −[\d.]+ \|", clean)


def test_the_page_on_auto_names_the_target_of_its_bench():
    target = constants("reproduction/bench/auto_cost.py")["AIM"]
    assert f"at most {target} times as long as one by cross-entropy" in page("docs/auto.md")


@pytest.mark.slow
def test_the_comparison_gives_what_its_page_shows(tmp_path):
    command = [sys.executable, "examples/digits.py", "--picture", str(tmp_path / "digits.png")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    shown = re.search(
        r"([\d,]+) training images, (\d+) of them.*?After (\d+) epochs.*?right on ([\d.]+)%"
        r".*?right on ([\d.]+)%.*?the (\d+) labels.*?([\d.]+)% are wrong",
        page("docs/losses.md"), re.DOTALL,
    )  # fmt: skip
    found = re.search(
        r"(\d+) training images, (\d+) with.*?after (\d+) epochs.*?cross-entropy +([\d.]+)%"
        r".*?abstain +([\d.]+)%.*?the (\d+) labels.*?([\d.]+)% are",
        " ".join(run.stdout.split()),
    )
    numbers = [[float(x.replace(",", "")) for x in match.groups()] for match in (shown, found)]
    np.testing.assert_allclose(*numbers, atol=1.5)  # sums round differently on other machines


def test_checked_samples_are_as_good_as_the_readme_says():
    summary = result("sampling.json")["summary"]
    assert min(x["coverage_least"] for x in summary) >= 0.935
    assert all(x["width"] < x["binomial_width"] for x in summary if x["variant"] == "real")


def test_the_growth_of_an_audit_is_that_of_its_result():
    by_size = {(x["rows"], x["classes"]): x["total"] for x in result("audit-scale.json")}
    growth = max(by_size[10 * n, m] / t for (n, m), t in by_size.items() if (10 * n, m) in by_size)
    assert f"Ten times the rows took up to {growth:.1f} times the time" in page("results/README.md")


def test_the_readme_is_short_and_its_table_is_made_from_results():
    assert len(page("README.md").splitlines()) <= 120
    assert page("README.md") == verdict_page.readme()
