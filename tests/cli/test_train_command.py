"""`abstain train`: what it prints, its exit codes, and that a wrong word leaves nothing behind."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from safetensors.torch import load_file
from typer.testing import CliRunner

from abstain.cli import app, main
from abstain.cli.train import METHODS
from abstain.training import recipe as methods
from abstain.training.saving.checkpoint import load_checkpoint

ENV = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}


def blobs(folder, count=60, classes=3):
    rng = np.random.default_rng(0)
    label = np.arange(count) % classes
    x = rng.normal(size=(classes, 4))[label] * 3 + rng.normal(size=(count, 4))
    np.savez(folder / "blobs.npz", x=x.astype(np.float32), label=label)
    return "blobs.npz"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    blobs(tmp_path)
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, ["train", *map(str, arguments)], env={"COLUMNS": "80"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def error_of(capsys, *arguments):
    """The one line that a wrong argument ends in."""
    with pytest.raises(SystemExit) as exit_:
        main(["train", *map(str, arguments)])
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("abstain: ")
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def weights(folder):
    return {name: x.tolist() for name, x in load_file(folder / "model.safetensors").items()}


def test_it_trains_and_says_what_came_of_it(here):
    output = run("blobs.npz", "--epochs", 3, "--test", "blobs.npz", "--out", "run")
    assert output.startswith("Done: all 3 epochs are done; cross-entropy ")
    for line in ("test accuracy", "agreement with the given training labels"):
        assert re.search(rf"{line} +\d[\d.]*%\n", output), output
    assert "stake" not in output  # auto does not bet
    assert "abstain predict run SOURCE" in output
    assert (here / "run" / "model.safetensors").exists()


def test_by_which_backbone_texts_were_seen_is_said(here):
    rows = [f"{'a goal' if k % 2 else 'the bank'} {k},{k % 2}" for k in range(40)]
    (here / "news.csv").write_text("\n".join(["text,label", *rows]))
    output = run("news.csv", "--backbone", "small:wordllama", "--epochs", 2, "--out", "run")
    assert re.search(r"backbone +small:wordllama, named\n", output), output
    assert "backbone  " not in run("blobs.npz", "--epochs", 2, "--out", "numbers")


def test_a_method_that_bets_says_how_much(here):
    output = run("blobs.npz", "--method", "schedule", "--epochs", 3, "--out", "run")
    assert re.search(r"mean stake, what is not kept in reserve +\d[\d.]*%\n", output), output


def test_json_is_one_object_for_machines(here):
    answer = json.loads(run("blobs.npz", "--epochs", 2, "--out", "run", "--json"))
    assert answer["folder"] == "run"
    assert answer["outcome"].startswith("all 2 epochs are done; ")
    assert answer == {**json.loads((here / "run" / "summary.json").read_text()), "folder": "run"}


def test_without_a_folder_it_finds_a_new_one(here):
    folder = here / json.loads(run("blobs.npz", "--epochs", 1, "--json"))["folder"]
    assert folder.parent == here / "runs"
    assert folder.name.startswith("blobs-auto-")
    assert (folder / "run.json").exists()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dry_run_shows_the_resolved_recipe_and_makes_nothing(here, as_json):
    before = sorted(here.iterdir())
    output = run("blobs.npz", "--method", "aes", "--rate", 0.2, "--dry-run", *["--json"] * as_json)
    if as_json:
        answer = json.loads(output)
        assert answer["samples"] == 60
        recipe = answer["plan"]
        assert (recipe["model"], recipe["batch"], recipe["epochs"]) == ("mlp", 16, 30)
        assert recipe["payoff"] == pytest.approx(2.9667, abs=1e-3)
    else:
        assert re.search(r"epochs +30 *\n", output)
        assert re.search(r"model +mlp", output)
    assert sorted(p for p in here.iterdir() if p.name != "cache") == before


def test_a_dry_run_shows_the_source_by_its_name_whatever_that_is(here):
    (here / "it's [red]mine[").mkdir()
    (here / "blobs.npz").rename(here / "it's [red]mine[" / "b].npz")
    assert "source         it's [red]mine[/b].npz" in run("it's [red]mine[/b].npz", "--dry-run")


def test_run_again_from_a_folder_gives_identical_weights(here):
    settings = ["--epochs", 3, "--flip", 0.3, "--seed", 4, "--lr", 0.01]
    run("blobs.npz", *settings, "--out", "one")
    run("--from", "one", "--out", "two")
    assert weights(here / "one") == weights(here / "two")
    run("--from", "one", "--seed", 5, "--seed-noise", 4, "--out", "three")
    assert weights(here / "one") != weights(here / "three")
    recipe = json.loads((here / "three" / "run.json").read_text())["plan"]
    assert [recipe[f"seed_{name}"] for name in ("noise", "init", "order")] == [4, 5, 5]


def test_a_seed_of_errors_is_for_runs_that_plant_any(here, capsys):
    shown = ["--dry-run", "--json"]
    for flips in (["--flip", 0.3], ["--flip", 0]):  # of a script, the share may be 0 once
        recipe = json.loads(run("blobs.npz", *flips, "--seed-noise", 3, *shown))["plan"]
        assert recipe["seed_noise"] == 3
    assert json.loads(run("blobs.npz", "--seed", 3, *shown))["plan"]["seed_noise"] == 3
    run("blobs.npz", "--epochs", 1, "--flip", 0.3, "--out", "flipped")
    run("--from", "flipped", "--seed-noise", 3, *shown)
    run("blobs.npz", "--epochs", 1, "--out", "plain")
    assert "got 3 alone" in error_of(capsys, "--from", "plain", "--seed-noise", 3)


def test_a_folder_in_the_environment_is_no_given_option(here, monkeypatch):
    monkeypatch.setenv("ABSTAIN_DATA", str(here))
    run("blobs.npz", "--epochs", 2, "--out", "run")
    assert json.loads((here / "run" / "run.json").read_text())["sources"]["options"] == {}
    before = weights(here / "run")
    run("--resume", "run")
    assert weights(here / "run") == before
    run("--from", "run", "--out", "again")
    assert weights(here / "again") == before


def save_mnist(folder, first=0):
    """Forty images in the layout of a downloaded set, of shades from the first on."""
    (folder / "mnist").mkdir(parents=True)
    rows = []
    for shade in range(first, first + 40):
        png = io.BytesIO()
        Image.fromarray(np.full((28, 28), shade, dtype=np.uint8)).save(png, "PNG")
        rows.append({"image": {"bytes": png.getvalue(), "path": None}, "label": str(shade % 2)})
    for split in ("train", "test"):
        pq.write_table(pa.Table.from_pylist(rows), folder / "mnist" / f"{split}.parquet")


def test_a_run_goes_on_where_its_data_lie_elsewhere(here, capsys, monkeypatch):
    save_mnist(here / "there")
    run("mnist", "--data-dir", "there", "--model", "mlp", "--epochs", 1, "--out", "run")
    options = json.loads((here / "run" / "run.json").read_text())["sources"]["options"]
    assert options == {"data_dir": str(here / "there")}
    # As on another machine, which has neither that folder nor what was decoded from it.
    (here / "there").rename(here / "here")
    monkeypatch.setenv("ABSTAIN_CACHE", str(here / "empty"))
    monkeypatch.setenv("ABSTAIN_DATA", str(here / "here"))
    run("--resume", "run")
    run("--from", "run", "--out", "again")
    assert weights(here / "again") == weights(here / "run")
    save_mnist(here / "others", first=1)
    monkeypatch.setenv("ABSTAIN_DATA", str(here / "others"))
    assert "data must be those that the run in run began with" in error_of(
        capsys, "--resume", "run"
    )


TWO = "two.npz"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give one of SOURCE, --resume RUN and --from RUN"),
        ("blobs.npz --from one", "give one of SOURCE"),
        ("blobs.npz --method shedule", "did you mean schedule?"),
        ("blobs.npz --payoff 0.5", "payoff must be greater than 1, got 0.5"),
        ("blobs.npz --payoff ecu", "ecu"),
        (
            f"{TWO} --method gamblers --payoff 9.99",
            "payoff must lie in (1, 2] for 2 classes, got 9.99",
        ),
        (f"{TWO} --payoff 1.9", "payoff must be left out for method 'auto'"),
        ("blobs.npz --method aes", "rate must be given for the analytical stop"),
        ("blobs.npz --method aes --rate 0.2 --payoff 1.1", "to have a plateau to stop at"),
        ("blobs.npz --method aes --rate 0.9", "rate"),
        ("blobs.npz --epochs 0", "epochs must be a whole number, at least 1, got 0"),
        ("blobs.npz --epochs 3 --warm-up 3", "--warm-up must be less than epochs, 3, got 3"),
        ("blobs.npz --batch 0", "batch must be a whole number, at least 1, got 0"),
        ("blobs.npz --lr 0", "--learning-rate must be greater than 0"),
        ("blobs.npz --lr nan", "--learning-rate must be greater than 0"),
        ("blobs.npz --optimizer rmsprop", "optimizer must be one of adam, adamw, sgd, laprop"),
        ("blobs.npz --precision fp8", "precision must be one of auto"),
        ("blobs.npz --flip 1.5", "flip must be in [0, 1), got 1.5"),
        ("blobs.npz --flip 0.2 --flip-kind odd", "--flip-kind must be one of symmetric"),
        (
            "blobs.npz --seed-noise 3",
            "got 3 alone; give their share by --flip",
        ),
        ("blobs.npz --seed-noise 3 --dry-run", "to flip, got 3 alone"),
        ("blobs.npz --seed -1", "--seed must be in [0, 2³²), whole, got -1"),
        ("blobs.npz --model resnet-18", "got 'resnet-18'; did you mean resnet18?"),
        ("blobs.npz --model mnist-cnn", "mnist-cnn"),
        ("blobs.npz --model nowhere.py:Net", "model must name a Python file that exists, got"),
        ("blobs.npz --label colour", "colour"),
        ("blobs.npz --image-size 0", "--image-size must be whole pixels, 1 to 4096, got 0"),
        ("blobs.npz --image-size 100000", "whole pixels, 1 to 4096, got 100000"),
        ("blobs.npz --save-every -1", "--save-every must be at least 0 seconds, got -1.0"),
        ("blobs.npz --save-every nan", "--save-every must be at least 0 seconds, got nan"),
        ("blobs.npz --test missing.csv", "test must be a file or folder that exists, got miss"),
        ("missing.csv", "source must be a file or folder that exists, got missing.csv"),
        ("digitz", "did you mean digits?"),
        ("--resume nowhere", "which is no folder"),
        (
            "--resume nowhere --epochs 3",
            "its folder; use --from to change them",
        ),
        (
            "--resume nowhere --dry-run",
            "its folder; use --from to change them",
        ),
        ("--from nowhere", "which is no folder"),
    ],
)
def test_a_wrong_argument_is_one_line_and_leaves_no_folder(here, capsys, arguments, message):
    rng = np.random.default_rng(0)
    np.savez(here / TWO, x=rng.normal(size=(20, 3)).astype(np.float32), label=np.arange(20) % 2)
    out = [] if arguments.startswith("--resume") or not arguments else ["--out", "run"]
    assert message in error_of(capsys, *arguments.split(), *out)
    assert not (here / "run").exists()
    assert not (here / "nowhere").exists()
    assert not (here / "runs").exists()


def test_a_folder_in_use_is_left_as_it_is(here, capsys):
    run("blobs.npz", "--epochs", 1, "--out", "run")
    before = weights(here / "run")
    message = error_of(capsys, "blobs.npz", "--epochs", 2, "--out", "run")
    assert "--out must be new or empty, got run; go on with it by --resume" in message
    assert weights(here / "run") == before


def test_a_folder_that_cannot_be_made_is_one_line(here, capsys):
    message = error_of(capsys, "blobs.npz", "--out", "blobs.npz/run")
    assert "--out must be one that can be" in message


def test_divergence_is_one_line_and_the_last_checkpoint_is_whole(here, capsys):
    message = error_of(
        capsys, "blobs.npz", "--lr", 1e6, "--epochs", 9, "--batch", 60, "--out", "run"
    )
    assert "diverged; lower --learning-rate (1e+06)" in message
    # An epoch is one step: some were saved before the loss was known to be infinite.
    checkpoint = load_checkpoint(here / "run" / "last.safetensors")
    assert all(x.isfinite().all() for x in checkpoint.part("model")[0].values())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_predicts(here, method):
    # AES could stop at once on so few samples; a rate that is too low never stops it.
    rate = ["--rate", 0.05] if method in ("aes", "nll-entropy") else []
    settings = ["--method", method, *rate, "--epochs", 25, "--flip", 0.1]
    answer = json.loads(
        run("blobs.npz", *settings, "--test", "blobs.npz", "--out", "run", "--json")
    )
    assert answer["test_accuracy"] > 0.9
    predicted = CliRunner().invoke(app, ["predict", "run", "blobs.npz", "--output", "p.csv"])
    assert predicted.exit_code == 0, predicted.output
    assert len((here / "p.csv").read_text().splitlines()) == 61


def test_help_gives_a_line_to_every_method():
    assert METHODS.keys() == methods.METHODS.keys()
    result = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "80"})
    for name, about in METHODS.items():
        assert f" {name}: {about} " in result.stdout


def test_help_gives_an_example_per_line():
    result = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    lines = [line.strip() for line in result.output.splitlines()]
    assert "abstain train digits --flip 0.4             40% of the labels made wrong" in lines
    assert "abstain train mnist --flip 0.5 --method aes --rate 0.5" in lines
    assert "torchrun --nproc-per-node 2 -m abstain train photos/" in lines


def test_a_tiny_share_is_not_printed_as_zero():
    from abstain.cli.train import _percent

    assert [_percent(x) for x in (0.5, 0.00951, 0.0123, 0.0, 1.0)] == [
        "50.0%", "0.95%", "1.2%", "0.0%", "100.0%",
    ]  # fmt: skip
    assert _percent(3.14e-7) == "0.000031%"
    assert _percent(3.14e-12) == "3.1e-10%"


INTERRUPT = "import signal; signal.raise_signal(signal.SIGINT)"


def begin(here, *arguments, loaded="pass", made="pass", at_each_step="time.sleep(0.003)"):
    """A real process in a training that takes a while."""
    (here / "net.py").write_text(
        "import time, torch\n"
        f"{loaded}\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, num_outputs):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(4, num_outputs)\n"
        f"        {made}\n"
        "    def forward(self, x):\n"
        f"        {at_each_step}\n"
        "        return self.layer(x)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-m", "abstain", "train", *map(str, arguments)],
        cwd=here, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "others"),
    [("run", []), ("it's [bold]mine[/] :smile:", ["--save-every", "7.5", "--json"])],
)
def test_ctrl_c_saves_says_how_to_go_on_and_exits_130(here, folder, others):
    settings = ["blobs.npz", "--model", "net.py:Net", "--batch", 2, "--epochs", 12, "--flip", 0.2]
    # Measured anew for every run, "auto" is not the same for both when the machine is busy.
    settings += ["--precision", "fp32"]
    process = begin(here, *settings, *others, "--out", folder)
    deadline = time.monotonic() + 60
    while not (here / folder / "last.safetensors").exists():  # an epoch is done, or 7.5 s are over
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    time.sleep(0.04)  # somewhere in the next one
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output == ""
    text, command = error.rstrip("\n").split(" Go on with: ")
    assert text == "Interrupted and saved."
    assert command.endswith(shlex.join(["abstain", "train", "--resume", folder, *others]))
    at = load_checkpoint(here / folder / "last.safetensors").part("position")[1]
    assert 0 < at["step"] < 12 * 30
    resumed = subprocess.run(
        command, shell=True, cwd=here, env=ENV, capture_output=True, check=True
    )
    assert resumed.stdout.startswith(b"{" if others else b"Done: all 12 epochs are done")
    run(*settings, "--out", "whole")
    assert weights(here / folder) == weights(here / "whole")


def test_ctrl_c_before_the_training_is_quiet_too(here):
    process = begin(here, "blobs.npz", "--epochs", "5000", "--out", "run")
    loaded = Path(f"/proc/{process.pid}/maps")
    deadline = time.monotonic() + 60
    while "libtorch" not in loaded.read_text():  # while torch is being imported
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error


def test_ctrl_c_before_the_first_step_has_nothing_to_save(here):
    # Of an interruption while a string is evaluated Python itself would make a death by the signal.
    process = begin(
        here, "blobs.npz", "--model", "net.py:Net", "--out", "run", made=f"exec({INTERRUPT!r})"
    )
    output, error = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, ""), error
    assert error.startswith("Interrupted before the training began: run the same command again.")
    assert not (here / "run").exists()


def test_ctrl_c_ends_it_even_if_what_is_loaded_swallows_it(here):
    swallow = f"try:\n    {INTERRUPT}\nexcept BaseException:\n    pass\n"
    process = begin(here, "blobs.npz", "--model", "net.py:Net", "--out", "run", loaded=swallow)
    assert process.communicate(timeout=60) == ("", "Interrupted.\n")
    assert process.returncode == 130
    assert not (here / "run").exists()


def test_ctrl_c_after_the_end_changes_nothing(here):
    late = f"import atexit\n\ndef late():\n    {INTERRUPT}\n\natexit.register(late)\n"
    process = begin(
        here, "blobs.npz", "--model", "net.py:Net", "--epochs", 2, "--out", "run", loaded=late
    )
    output, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")
    assert output.startswith("Done: ")


def test_it_is_quiet_where_nobody_watches(here):
    done = subprocess.run(
        [sys.executable, "-m", "abstain", "train", "blobs.npz", "--epochs", "2", "--out", "run"],
        cwd=here, env=ENV, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("Done: ")
