"""The parts of `bench/audit.py` that decide what its page says."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from abstain import Recipe
from abstain.data import load
from abstain.losses import belief
from abstain.train.folder import make_model
from abstain.train.run import train

SCRIPT = Path(__file__).resolve().parents[2] / "bench/audit.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_audit", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    before = os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK")
    spec.loader.exec_module(module)
    if before is None:
        del os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"]
    return module


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    return load((rng.normal(size=(60, 4)).astype(np.float32) + labels[:, None], labels))


def test_figures_agree_with_scikit_learn(bench):
    rng = np.random.default_rng(0)
    score, wrong = rng.integers(20, size=200) / 20, rng.random(200) < 0.3
    flags = score < 0.3
    row = bench.judged(
        {"rankings": {"a": score}, "flags": {"a": flags}, "rates": {"a": 0.25}}, wrong
    )
    assert row["rankings"]["a"]["auroc"] == pytest.approx(roc_auc_score(wrong, -score))
    assert row["rankings"]["a"]["ap"] == pytest.approx(average_precision_score(wrong, -score))
    assert row["flags"]["a"]["f1"] == pytest.approx(f1_score(wrong, flags))
    assert row["rates"]["a"]["error"] == pytest.approx(abs(0.25 - wrong.mean()))


def test_flagging_nothing_has_an_f1_of_zero(bench):
    wrong = np.array([True, False])
    row = bench.judged({"rankings": {}, "flags": {"a": ~(wrong | True)}, "rates": {}}, wrong)
    assert row["flags"]["a"]["f1"] == 0


def test_folds_hold_every_row_once_and_every_class_evenly(bench):
    given = np.random.default_rng(0).integers(4, size=103)
    folds = bench.stratified_folds(given, 5, seed=1)
    assert sorted(np.concatenate(folds).tolist()) == list(range(103))
    for label in range(4):
        counts = [int((given[fold] == label).sum()) for fold in folds]
        assert max(counts) - min(counts) <= 1
    others = bench.stratified_folds(given, 5, seed=2)
    assert [fold.tolist() for fold in folds] != [fold.tolist() for fold in others]


@pytest.mark.parametrize("kind", ["symmetric", "pairflip", "instance"])
def test_sides_are_not_shown_the_truth(bench, table, kind):
    data, wrong = bench.plant(table, kind, 0.4, seed=0)
    assert data.true is None
    assert (wrong == (data.given != table.given).numpy()).all()
    assert wrong.any()


def test_pairflip_of_two_classes_would_repeat_symmetric_noise(bench):
    assert len(bench.settings(10)) == 8
    assert [kind for kind, _ in bench.settings(2)] == ["symmetric"] * 4 + ["instance"] * 2
    labels = np.arange(100) % 2
    data = load((labels[:, None].astype(np.float32), labels))
    same = [bench.plant(data, kind, 0.3, seed=4)[1] for kind in ("symmetric", "pairflip")]
    assert (same[0] == same[1]).all()


def test_aum_is_the_margin_of_logits_and_the_loss_is_of_the_last_epoch(bench, table):
    # One step over all samples: the logits are those of the untrained network.
    recipe = Recipe.of("nll", epochs=1, batch=len(table), precision="fp32")
    found = bench.by_nll(table, recipe)
    trained = train(table, recipe)
    model = make_model(trained.recipe.model, trained.encoder, 3, recipe.seed_init)
    logits = model(trained.encoder.to_model(trained.encoder.encode(table))).detach()
    margins, losses = [], []
    for row, label in zip(logits.tolist(), table.given.tolist(), strict=True):
        others = [x for j, x in enumerate(row[:3]) if j != label]
        margins.append(row[label] - max(others))
        losses.append(float(torch.logsumexp(torch.tensor(row), 0)) - row[label])
    np.testing.assert_allclose(found["rankings"]["AUM"], margins, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(-found["rankings"]["last loss"], losses, rtol=1e-4, atol=1e-5)


def test_recording_ends_with_its_training(bench, table):
    tally = bench.abstain.train.loop.Tally
    bench.by_nll(table, Recipe.of("nll", epochs=1, batch=16))
    assert bench.abstain.train.loop.Tally is tally


def test_held_out_probabilities_are_those_of_the_model(bench, table):
    rows = np.arange(0, 60, 2)
    trained = train(bench.subset(table, rows), Recipe.of("nll", epochs=2, batch=16))
    held_out = bench.subset(table, np.arange(1, 60, 2))
    found = bench.predict(trained, held_out)
    logits = trained.model(trained.encoder.to_model(trained.encoder.encode(held_out)))
    np.testing.assert_allclose(found, belief(logits).detach().numpy(), rtol=1e-5)


def rows_of(setting, ours, theirs, seed=0, classes=10):
    """Lines of all sides, with the same figures for all rivals."""
    data, kind, rate = setting
    common = {
        "data": data, "kind": kind, "rate": rate, "seed": seed, "epochs": 15, "usual": True,
        "truth": rate, "samples": 100, "classes": classes, "versions": {"abstain": "0"},
        "seconds": 1.0, "cpu_seconds": 1.0, "gained_mib": 1.0, "device": "cpu", "machine": "m",
        "threads": 1, "recipe": {"model": "n", "epochs": 15, "batch": 1}, "commit": "c",
        "at": "2026-01-01",
    }  # fmt: skip

    def side(name, rankings, figure, flags=(), rates=()):
        return common | {
            "side": name,
            "rankings": {ranking: {"auroc": figure, "ap": figure} for ranking in rankings},
            "flags": {flag: {"f1": 0.5, "flagged": 1} for flag in flags},
            "rates": {rate: {"value": 0.1, "error": 0.1} for rate in rates},
        }

    cleanlab = ("self-confidence", "normalized margin", "pruned first")
    return [
        side("abstain", ["abstain"], ours, ["abstain"], ["abstain"]),
        side("cleanlab", cleanlab, theirs, ["cleanlab"], ["joint", "count"])
        | {"seconds": 5.0, "cpu_seconds": 4.0},
        side("nll", ["AUM", "last loss"], theirs),
    ]


def test_page_counts_wins_to_three_decimals_and_lists_losses(bench):
    rows = [
        *rows_of(("mnist-5k", "symmetric", 0.1), 0.9, 0.8),
        *rows_of(("mnist-5k", "symmetric", 0.2), 0.9, 0.9004),
        *rows_of(("mnist-5k", "pairflip", 0.2), 0.9, 0.91),
    ]
    text = bench.page(rows)
    assert "| AUM | 2 of 3 | 2 of 3 | 2 of 3 |" in text
    lost = text.split("## Where we lose")[1].split("##")[0]
    assert "mnist-5k pairflip 0.2 | AUROC | 0.900 | self-confidence 0.910" in lost
    assert "symmetric" not in lost
    assert "median of 3 runs: 0.20" in text
    assert "by processor time 0.25" in text


def test_what_cannot_be_known_is_shown_but_not_counted(bench):
    rows = [
        *rows_of(("breast cancer", "symmetric", 0.2), 0.9, 0.8, classes=2),
        *rows_of(("breast cancer", "symmetric", 0.6), 0.1, 0.4, classes=2),
    ]
    text = bench.page(rows)
    assert "| AUM | 1 of 1 |" in text
    assert "symmetric 0.6 †" in text


def test_expectations_of_fresh_seeds_have_a_table_of_their_own(bench):
    def reviews(off):
        budget = {"size": 10, "expected": 0.9 + off, "found": 0.9, "covered": True}
        return [budget] * 10

    rows = rows_of(("mnist-5k", "symmetric", 0.1), 0.9, 0.8)
    rows[0]["reviews"] = reviews(0.01)
    fresh = [
        {"data": "mnist-5k", "kind": "symmetric", "rate": 0.2, "seed": seed, "classes": classes}
        | {"reviews": reviews(off)}
        for seed, classes, off in ((8, 10, 0.02), (7, 10, 0.1))
    ]
    assert rows[0]["side"] == "abstain"
    assert "no rule was mended" not in bench.page(rows)
    text = bench.page(rows, fresh)
    assert "seeds by which no rule was mended (7 to 8 of mnist-5k;" in text
    seen, unseen, by_setting = (part.split("## ")[0] for part in text.split("| | runs |")[1:4])
    assert "| mnist-5k | 1 | +0.010 | 100% |" in seen
    assert "| mnist-5k | 2 | +0.060 | 50% | 0% |" in unseen
    assert "| mnist-5k symmetric 0.2 | 2 | +6.0 | +6.0 | +6.0 | +6.0 (4.0) |" in by_setting


def test_a_setting_without_all_sides_does_not_count(bench):
    rows = rows_of(("mnist-5k", "symmetric", 0.1), 0.9, 0.8)
    assert "no complete settings" in bench.page(rows[:2])
    assert "| AUM | 1 of 1 |" in bench.page(rows)


def test_the_newest_line_holds(bench):
    old = rows_of(("mnist-5k", "symmetric", 0.1), 0.7, 0.8)
    new = [row | {"at": "2026-01-02"} for row in rows_of(("mnist-5k", "symmetric", 0.1), 0.9, 0.8)]
    assert "| AUM | 1 of 1 |" in bench.page(new[:1] + old)


def test_sides_that_trained_for_other_epochs_are_not_compared(bench):
    rows = rows_of(("mnist-5k", "symmetric", 0.1), 0.7, 0.8)
    ours, *_ = rows_of(("mnist-5k", "symmetric", 0.1), 0.9, 0.8)
    rows.append(ours | {"at": "2026-01-02", "epochs": 30})
    assert "| AUM | 0 of 1 |" in bench.page(rows)


def test_other_epochs_are_told_apart(bench):
    rows = rows_of(("mnist-5k", "symmetric", 0.1), 0.9, 0.8)
    fewer = rows_of(("mnist-5k", "symmetric", 0.1), 0.7, 0.95)
    rows += [row | {"usual": False, "epochs": 5, "at": "2026-01-02"} for row in fewer]
    text = bench.page(rows)
    assert "| AUM | 1 of 1 |" in text
    said = text.split("## Other numbers of epochs")[1]
    assert "| abstain, 5 epochs | cleanlab, 5 epochs |" in said
    assert "| 0.900 / 0.900 | 0.800 / 0.800 | 0.700 / 0.700 | 0.950 / 0.950 |" in said


def test_times_of_runs_side_by_side_do_not_count(bench):
    rows = rows_of(("cifar10", "symmetric", 0.2), 0.9, 0.8)
    beside = rows_of(("cifar10", "symmetric", 0.4), 0.9, 0.8)
    rows += [row | {"jobs": 8, "seconds": 100.0} for row in beside]
    text = bench.page(rows)
    assert "| AUM | 2 of 2 |" in text
    assert "median of 1 runs: 0.20" in text
    line = [x for x in text.splitlines() if x.startswith("| symmetric 0.4 ")][-1]
    assert line.endswith("| – | – | – | – | – | – |")


def test_most_telling_first_and_unknowable_last(bench, table):
    two_classes = bench.subset(table, np.flatnonzero(table.given.numpy() < 2))
    two_classes = replace(two_classes, classes=table.classes[:2])
    options = SimpleNamespace(
        seeds=[0, 1], kinds=["symmetric", "pairflip"], methods=["abstain", "nll"],
        epochs=3, samples=None,
    )  # fmt: skip
    pieces = list(bench.pieces(options, {"mnist-5k": table, "imdb": two_classes}))
    order = [(x["data"], x["kind"], x["rate"], x["seed"]) for x in pieces[::2]]
    assert [x["side"] for x in pieces[:2]] == ["abstain", "nll"]
    assert order[:3] == [("mnist-5k", *x, 0) for x in [*bench.NOISE[1:3], ("pairflip", 0.4)]]
    assert [seed for *_, seed in order[:-2]] == [0] * 9 + [1] * 9
    assert order[-2:] == [("imdb", "symmetric", 0.6, 0), ("imdb", "symmetric", 0.6, 1)]
    assert [x["rate"] for x in bench.of_first_settings(pieces, 1)] == [0.2] * 4


def test_prepared_sets_are_what_would_be_drawn_here(bench, tmp_path, monkeypatch):
    monkeypatch.setitem(bench.SAMPLES, "digits", 50)
    here = bench.load_set("digits")
    bench.prepare("digits", tmp_path)
    there = bench.load_set("digits", prepared=tmp_path)
    assert list(here.ids) == list(there.ids)
    assert len(set(here.ids)) == 50
    assert torch.equal(here.inputs, there.inputs)
    assert list(bench.load_set("digits", 20, tmp_path).ids) == list(here.ids)[:20]


@pytest.mark.slow
def test_processes_side_by_side_find_what_one_alone_finds(tmp_path):
    pytest.importorskip("cleanlab", reason="comes with abstain[bench]")
    found = {}
    for jobs in ("1", "2"):
        command = [
            sys.executable, str(SCRIPT), "--data", "breast cancer", "--kinds", "instance",
            "--seeds", "0", "--epochs", "2", "--device", "cpu", "--jobs", jobs, "--alone", "1",
            "--results", str(tmp_path / jobs), "--page", str(tmp_path / "p.md"),
        ]  # fmt: skip
        subprocess.run(command, check=True)
        rows = [json.loads(line) for line in (tmp_path / jobs).read_text().splitlines()]
        found[jobs] = {(x["rate"], x["side"]): (x["rankings"], x["rates"]) for x in rows}
    assert {row["jobs"] for row in rows} == {1, 2}
    assert len(rows) == 6
    assert found["1"] == found["2"]


@pytest.mark.slow
def test_kept_ledgers_give_the_same_verdict_again(tmp_path):
    command = [
        sys.executable, str(SCRIPT), "--data", "breast cancer", "--kinds", "instance",
        "--seeds", "0", "--methods", "abstain", "--epochs", "6", "--device", "cpu", "--jobs", "2",
        "--ledgers", str(tmp_path / "ledgers"), "--results", str(tmp_path / "r.jsonl"),
        "--page", str(tmp_path / "p.md"),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    subprocess.run([*command, "--rejudge"], check=True)
    rows = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert ["rejudged" in row for row in rows] == [False, False, True, True]
    for first, again in zip(rows[:2], rows[2:], strict=True):
        same = ("rate", "rankings", "flags", "rates", "seconds", "commit")
        assert [again[name] for name in same] == [first[name] for name in same]


@pytest.mark.slow
def test_what_is_there_is_not_run_again(tmp_path):
    command = [
        sys.executable, str(SCRIPT), "--data", "breast cancer", "--kinds", "instance",
        "--seeds", "0", "--methods", "abstain", "nll", "--epochs", "3", "--device", "cpu",
        "--results", str(tmp_path / "r.jsonl"), "--page", str(tmp_path / "p.md"),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    first = (tmp_path / "r.jsonl").read_text()
    rows = [json.loads(line) for line in first.splitlines()]
    assert [(row["rate"], row["side"]) for row in rows] == [
        (0.2, "abstain"), (0.2, "nll"), (0.4, "abstain"), (0.4, "nll"),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    assert (tmp_path / "r.jsonl").read_text() == first
