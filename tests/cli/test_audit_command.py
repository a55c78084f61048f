"""`abstain audit`: what it prints, writes, and answers to wrong words."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from abstain.cli.audit import EXAMPLES
from abstain.training.saving.checkpoint import load_checkpoint

from audits import write_texts
from commands import error_of, run

pytestmark = pytest.mark.usefixtures("here")


ENV = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}


SHORT = ["blobs.npz", "--epochs", 6, "--flip", 0.2, "--out", "audit"]


def test_checks_are_named_with_commas_or_one_by_one(here):
    run("audit", *SHORT, "--check", "empty, columns", "--check", "imbalance")
    checks = json.loads((here / "audit" / "summary.json").read_text())["checks"]
    assert set(checks) == {"class_imbalance", "null", "giveaways", "skipped"}
    assert checks["skipped"] == {}


def test_a_check_that_was_asked_for_in_vain_is_named():
    output = run("audit", *SHORT, "--check", "images,empty")
    assert re.search(r"\n +skipped +images: blobs holds no images\n", output), output
    assert "skipped  " not in run("audit", *SHORT[:-1], "other")


def test_it_says_what_it_found_how_much_was_right_and_where(here):
    output = run("audit", *SHORT)
    assert re.match(
        r"[\d.]+ to \d+% of 120 labels are wrong, most likely \d+% "
        r"\(90% interval, estimated from the labels "
        r"alone\)",
        output,
    )
    for line in (
        r"labels flagged +\d+",
        r"of the 100 worst, estimated to be wrong +\d+",
        r"\d+ errors had been planted, \d+\.\d% of the labels.* count as correct here:",
        r"flagged labels that are wrong +\d",
        r"wrong labels that are flagged +\d",
        r"wrong ranked before right \(AUROC\) +[01]\.\d{4}",
        r"Report: audit/report.html\n",
    ):
        assert re.search(line, output), output
    names = {path.name for path in (here / "audit").iterdir()}
    assert {"report.html", "issues.csv", "issues.parquet", "summary.json", "run.json"} <= names
    assert "abstain export audit --to cleaned" in (here / "audit" / "report.html").read_text()


def test_without_planted_errors_it_claims_no_truth():
    output = run("audit", "blobs.npz", "--epochs", 4, "--out", "audit")
    assert "planted" not in output


def test_json_is_the_summary(here):
    answer = json.loads(run("audit", *SHORT, "--json"))
    assert answer.pop("folder") == "audit"
    assert answer == json.loads((here / "audit" / "summary.json").read_text())
    assert answer["detection"]["auroc"] > 0.9


def test_without_a_folder_it_finds_a_new_one(here):
    folder = json.loads(run("audit", "blobs.npz", "--epochs", 2, "--json"))["folder"]
    assert re.fullmatch(r"audits/blobs-audit-\d{8}-\d{6}-\d{3}", folder)
    assert (here / folder / "report.html").exists()


def test_a_dry_run_makes_nothing(here):
    before = sorted(here.iterdir())
    recipe = json.loads(run("audit", *SHORT, "--dry-run", "--json"))["plan"]
    assert (recipe["epochs"], recipe["flip"], recipe["model"]) == (6, 0.2, "mlp")
    assert recipe["stop"] == "settled"  # as the audit itself would train
    assert sorted(path for path in here.iterdir() if path.name != "cache") == before


NETWORK = """
import torch

class Net(torch.nn.Module):
    size = 8

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.convolution = torch.nn.Conv2d(3, 6, 3)

    def forward(self, images):
        return self.convolution(images).relu().mean((2, 3))
"""


@pytest.fixture
def photos(here):
    rng = np.random.default_rng(0)
    for number in range(60):
        place = here / "photos" / ("dark", "light")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 120, (8, 8, 3)) + 100 * (number % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number}.png")
    (here / "net.py").write_text(NETWORK)
    return ["photos", "--backbone", "net.py:Net", "--no-augment", "--batch", 8]


def test_within_a_budget_it_says_whether_fine_tuning_is_better_and_why(photos, here):
    output = run("audit", *photos, "--budget", "5m", "--out", "audit")
    line = r"fine-tuning +(better than|tried, no better than) frozen features: predicts (\d+\.\d)% "
    line += r"against (\d+\.\d)% of \d+ held-out labels, 8 epochs\n"
    found = re.search(line, output)
    assert found, output
    is_better = float(found[2]) > float(found[3])
    assert (found[1] == "better than") == is_better
    recipe = json.loads((here / "audit" / "run.json").read_text())["plan"]
    assert recipe["finetune"] == is_better
    assert found[2] in (here / "audit" / "report.html").read_text()
    trained = run("train", *photos, "--budget", "5m", "--out", "run")
    assert re.search(line, trained), trained


@pytest.mark.parametrize(
    ("words", "shown"),
    [([], False), (["--budget", "90s"], "tried within 1m30s"), (["--budget", "0"], False)],
)
def test_a_dry_run_says_whether_fine_tuning_would_be_tried(photos, words, shown):
    answer = json.loads(run("audit", *photos, *words, "--dry-run", "--json"))
    assert answer["plan"]["finetune"] == shown


def test_a_dry_run_shows_the_settings_of_fine_tuning(here):
    shown = ["--finetune", "--lr", 0.002, "--no-augment", "--dry-run", "--json"]
    recipe = json.loads(run("audit", "blobs.npz", *shown))["plan"]
    assert (recipe["optimizer"], recipe["epochs"], recipe["stop"]) == ("adamw", 8, "never")
    assert (recipe["learning_rate"], recipe["augment"]) == (0.002, False)


def test_features_are_a_file_or_columns(here):
    write_texts(here / "texts.csv", count=60)
    np.save(here / "x.npy", np.random.default_rng(0).normal(size=(60, 3)))
    label = ["texts.csv", "--label", "stars", "--epochs", 2]
    assert run("audit", *label, "--features", "x.npy", "--out", "one")
    assert json.loads((here / "one" / "run.json").read_text())["plan"]["model"] == "mlp"
    assert run("audit", *label, "--features", "text", "--out", "two")
    report = (here / "one" / "report.html").read_text()
    assert 'class="excerpt"' in report  # people see the texts, not the numbers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give one of SOURCE and --resume AUDIT"),
        ("blobs.npz --resume x", "give one of SOURCE and --resume AUDIT"),
        ("--resume nowhere", "which is no folder"),
        (
            "blobs.npz --reviewed x.csv",
            "--reviewed needs an audit that exists already; ",
        ),
        (
            "--resume nowhere --epochs 3",
            "--resume takes all settings from its folder; give nothing else but --reviewed, --save",
        ),
        ("blobs.npz --method shedule", "did you mean schedule?"),
        ("blobs.npz --flip 1.5", "flip must be in [0, 1), got 1.5"),
        ("blobs.npz --features x.npy", "features must name a file that exists, got x.npy"),
        ("blobs.npz --features x.npy --features y.npy", "columns or one .npy"),
        ("blobs.npz --features short.npy", "one row for each of 120 samples of blobs, got 3"),
        ("blobs.npz --features nan.npy", "must be finite"),
        ("missing.csv", "source must be a file or folder that exists"),
        ("blobs.npz --epochs many", "--epochs"),
        ("blobs.npz --finetune", "--finetune needs a backbone, got none for blobs"),
        ("blobs.npz --budget soon", "--budget must be a duration such as 90s, 10m or 1h30m, got"),
        ("--resume audit --budget 10m", "--resume takes all settings from its folder"),
        ("blobs.npz --finetune --model mlp", "--finetune must be left out where a model is given"),
        ("blobs.npz --augment", "--augment must be left out where no network learns from images"),
    ],
)
def test_a_wrong_argument_is_one_line_and_leaves_no_folder(here, capsys, arguments, message):
    np.save(here / "short.npy", np.zeros((3, 2)))
    np.save(here / "nan.npy", np.full((120, 2), np.nan))
    out = ["--out", "audit"] if "--resume" not in arguments and arguments else []
    assert message in error_of(capsys, "audit", *arguments.split(), *out)
    assert not (here / "audit").exists()
    assert not (here / "audits").exists()


def test_no_folder_is_written_over(here, capsys):
    (here / "audit").mkdir()
    (here / "audit" / "mine.txt").write_text("mine")
    assert "--out must be new or empty" in error_of(capsys, "audit", *SHORT)
    assert [path.name for path in (here / "audit").iterdir()] == ["mine.txt"]


def test_ctrl_c_saves_and_resume_ends_with_the_same_verdict(here):
    # Long enough to be interrupted on any machine.
    settings = ["blobs.npz", "--epochs", "40", "--seed", "3", "--flip", "0.2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "abstain", "audit", *settings, "--out", "folder one"],
        cwd=here, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    last = here / "folder one" / "last.safetensors"
    deadline = time.monotonic() + 60
    while not last.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, ""), error
    text, command = error.rstrip("\n").split(" Go on with: ")
    assert text == "Interrupted and saved."
    assert command.endswith("abstain audit --resume 'folder one'")
    assert load_checkpoint(last).part("position")[1]["outcome"] == ""
    assert not (here / "folder one" / "summary.json").exists()
    subprocess.run(command, shell=True, cwd=here, env=ENV, capture_output=True, check=True)
    run("audit", *settings, "--out", "two")
    verdicts = [(here / name / "issues.csv").read_bytes() for name in ("folder one", "two")]
    assert verdicts[0] == verdicts[1]
    assert (here / "folder one" / "report.html").exists()


def test_a_finished_training_can_be_audited_without_training_again(here):
    run("train", "blobs.npz", "--epochs", 4, "--out", "run")
    before = load_file(here / "run" / "model.safetensors")
    run("audit", "--resume", "run")
    assert (here / "run" / "report.html").exists()
    after = load_file(here / "run" / "model.safetensors")
    assert all(after[name].equal(before[name]) for name in before)


def test_an_audit_goes_on_whatever_folder_the_environment_names(here, monkeypatch):
    monkeypatch.setenv("ABSTAIN_DATA", str(here))
    run("audit", *SHORT)
    options = [
        json.loads((here / "audit" / name).read_text())["sources"]["options"]
        for name in ("run.json", "summary.json")
    ]
    assert options == [{}, {}]
    before = (here / "audit" / "issues.csv").read_bytes()
    run("audit", "--resume", "audit")
    assert (here / "audit" / "issues.csv").read_bytes() == before


def test_the_model_of_an_audit_predicts(here):
    run("audit", *SHORT)
    run("predict", "audit", "blobs.npz", "--output", "predictions.csv")
    assert (here / "predictions.csv").exists()


@pytest.mark.parametrize("command", ["audit", "export"])
def test_help_gives_an_example_per_line(command):
    lines = [line.strip() for line in run(command, "--help").splitlines()]
    assert any(line.startswith(f"abstain {command} ") for line in lines)
    if command == "audit":
        examples = [line.strip() for line in EXAMPLES.splitlines() if "abstain audit" in line]
        assert all(line in lines for line in examples)


def test_a_table_as_people_have_them_goes_all_the_way(here):
    """Categories, gaps and a column to ignore: audited, shown, repaired, trained on, predicted."""
    rng = np.random.default_rng(0)
    lines = ["customer,age,city,day,bought"]
    for k in range(200):
        bought = k % 2
        age = "" if rng.random() < 0.2 else f"{30 + 20 * bought + rng.normal():.1f}"
        city = "" if rng.random() < 0.2 else ("Rome", "Oslo")[bought]
        label = ("no", "yes")[bought if k > 9 else 1 - bought]
        lines.append(f"{k},{age},{city},2020-02-{1 + k % 28:02d},{label}")
    (here / "shop.csv").write_text("\n".join(lines) + "\n")
    reading = ["--label", "bought", "--ignore", "customer"]
    run("audit", "shop.csv", *reading, "--epochs", 4, "--out", "audit")
    page = (here / "audit" / "report.html").read_text()
    assert "% alike" in page
    assert "missing</bdi></td>" in page
    assert "2020-02-1" in page
    assert f"abstain train audit-clean.csv {' '.join(reading)}<" in page
    assert page.count("customer") == 2  # was ignored and is to be again, not shown
    output = run("export", "audit", "--to", "cleaned", "--out", "clean.csv")
    advice = re.search(r"Train on it: abstain (train clean.csv .*)", output)[1]
    assert advice.split()[2:] == reading
    run(*advice.split(), "--epochs", 2, "--out", "run")
    (here / "new.csv").write_text(
        "day,city,age\n2021-01-01,Rome,30\n2021-01-02,Bonn,\n"
    )  # a city never seen, and no label
    run("predict", "run", "new.csv", "--output", "answers.csv")
    assert len((here / "answers.csv").read_text().splitlines()) == 3
    run("export", "audit", "--to", "label-studio", "--all", "--out", "tasks.json")
    rows = [task["data"]["row"] for task in json.loads((here / "tasks.json").read_text())]
    assert {row["city"] for row in rows} == {"Rome", "Oslo", None}


def test_advice_is_given_in_the_words_of_the_command_line(here, capsys):
    for size in (4, 6):
        for name in ("cat", "dog"):
            (here / "photos" / name).mkdir(parents=True, exist_ok=True)
            pixels = np.zeros((size, size), dtype=np.uint8)
            Image.fromarray(pixels).save(here / "photos" / name / f"{size}.png")
    (here / "photos" / "cat" / "no.png").write_bytes(b"no image")
    assert error_of(capsys, "audit", "photos").endswith("or leave them out with --skip-bad\n")


def test_what_was_left_out_is_reported_everywhere(here):
    for k in range(24):
        name = here / "photos" / ("cat", "dog")[k % 2] / f"{k}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), 200 * (k % 2) + k, dtype=np.uint8)).save(name)
    (here / "photos" / "cat" / "no.png").write_bytes(b"no image")
    output = run("audit", "photos", "--skip-bad", "--epochs", 2, "--out", "audit")
    assert re.search(r"left out as unreadable +1\n", output)
    assert json.loads((here / "audit" / "summary.json").read_text())["skipped"] == 1
    page = (here / "audit" / "report.html").read_text()
    assert "left out as unreadable</dt><dd>cat/no.png</dd>" in re.sub(r"</?bdi>", "", page)
