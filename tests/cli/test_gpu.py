"""Commands on a GPU: as good as on a CPU, though not to the bit."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from abstain.cli import app
from abstain.training.plan import Plan
from abstain.training.saving.checkpoint import load_checkpoint
from abstain.training.train import train

pytestmark = pytest.mark.gpu

WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": ""}
# To start CUDA and to compile kernels takes a while, and longer beside other tests.
PATIENCE = 180
TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node {} -m"
ACCELERATE = (
    "-m accelerate.commands.launch --num_processes {} --num_machines 1 --mixed_precision no "
    "--dynamo_backend no -m"
)
DIGITS = ["digits", "--flip", "0.3", "--epochs", "8"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    label = np.arange(60) % 3
    x = rng.normal(size=(3, 4))[label] * 3 + rng.normal(size=(60, 4))
    np.savez(tmp_path / "blobs.npz", x=x.astype(np.float32), label=label)
    lines = [f"{','.join(map(str, row))},{name}" for row, name in zip(x, label, strict=True)]
    (tmp_path / "blobs.csv").write_text("\n".join(["a,b,c,d,label", *lines]))
    words = {"pos": "good fine great love", "neg": "bad awful dull hate"}
    texts = [f"{words[kind]} film {n},{kind}" for n in range(20) for kind in words]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *texts]))
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "80"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def started(words, *arguments, **settings):
    """A real process, to be waited for."""
    return subprocess.Popen(
        [sys.executable, *words.split(), *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", **settings},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process):
    output, error = process.communicate(timeout=PATIENCE)
    return process.returncode, output, error


def about(folder):
    return json.loads((folder / "run.json").read_text())


def test_a_training_is_on_the_gpu_and_as_good(here):
    answer = json.loads(run("train", *DIGITS, "--out", "run", "--json"))
    assert answer["test_accuracy"] > 0.9
    assert about(here / "run")["machine"]["device"] == torch.cuda.get_device_name()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_is_as_good(here, precision):
    answer = json.loads(run("train", *DIGITS, "--precision", precision, "--out", "run", "--json"))
    assert answer["test_accuracy"] > 0.9
    assert about(here / "run")["plan"]["precision"] == precision
    model = load_file(here / "run" / "model.safetensors")
    assert all(weight.isfinite().all() for weight in model.values())


@pytest.mark.parametrize("method", ["aes", "schedule", "ves"])
def test_other_methods_train(method):
    settings = ["--method", method, "--epochs", 25, "--flip", 0.1]
    if method != "schedule":  # which has no use for it
        settings += ["--rate", 0.05]  # too low to ever stop AES
    answer = json.loads(
        run("train", "blobs.npz", *settings, "--test", "blobs.npz", "--out", "run", "--json")
    )
    assert answer["test_accuracy"] > 0.9


def test_texts_are_learnt():
    settings = ["--label", "label", "--epochs", 12, "--batch", 8, "--test", "reviews.csv"]
    answer = json.loads(run("train", "reviews.csv", *settings, "--out", "run", "--json"))
    assert answer["test_accuracy"] > 0.9


def test_processes_that_read_bring_what_lies_in_memory(here):
    recipe = Plan(epochs=3, warm_up=1, batch=7, precision="fp32")
    resident = train(here / "blobs.csv", recipe, label="label", cache_dir=here / "one")
    lazy = train(here / "blobs.csv", recipe, label="label", cache_dir=here / "two", memory_budget=1)
    assert not isinstance(lazy.data.inputs, torch.Tensor)
    assert lazy.ledger.visits.tolist() == resident.ledger.visits.tolist() == [3] * 60
    for name, weight in resident.model.state_dict().items():
        torch.testing.assert_close(lazy.model.state_dict()[name], weight, rtol=1e-3, atol=1e-4)


def test_what_a_gpu_has_trained_predicts_with_and_without_one(here):
    run("train", *DIGITS, "--out", "run")
    predict = ["predict", "run", "digits", "--split", "test", "--compare", "--json", "--output"]
    on_gpu = json.loads(run(*predict, "gpu.csv"))
    assert on_gpu["agreement"] > 0.9
    code, output, error = ended(started("-m abstain", *predict, "cpu.csv", **WITHOUT_GPU))
    assert code == 0, error
    assert json.loads(output)["agreement"] == pytest.approx(on_gpu["agreement"], abs=0.01)
    answers = [
        [row["predicted_label"] for row in csv.DictReader((here / name).open())]
        for name in ("gpu.csv", "cpu.csv")
    ]
    assert len(answers[0]) == 355
    assert np.mean(np.array(answers[0]) == np.array(answers[1])) > 0.98


def test_an_audit_finds_what_was_planted(here):
    answer = json.loads(run("audit", "digits", "--flip", 0.2, "--out", "audit", "--json"))
    assert answer["detection"]["auroc"] > 0.95
    assert (here / "audit" / "report.html").exists()


@pytest.mark.parametrize("afterwards", [{}, WITHOUT_GPU], ids=["with it", "without it"])
def test_ctrl_c_saves_and_the_run_goes_on(here, afterwards):
    (here / "net.py").write_text(
        "import time, torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, num_outputs):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(4, num_outputs)\n"
        "    def forward(self, x):\n"
        "        time.sleep(0.01)\n"
        "        return self.layer(x)\n"
    )
    settings = [
        "blobs.npz", "--model", "net.py:Net", "--batch", 2, "--epochs", 10, "--flip", 0.1,
        "--method", "schedule", "--precision", "fp32", "--test", "blobs.npz",
    ]  # fmt: skip
    process = started("-m abstain train", *settings, "--out", "run")
    last = here / "run" / "last.safetensors"
    deadline = time.monotonic() + PATIENCE
    while not last.exists():  # the first epoch is done
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code, output, error = ended(process)
    assert (code, output) == (130, ""), error
    assert error.startswith("Interrupted and saved. Go on with: ")
    assert error.endswith("abstain train --resume run\n")
    assert 29 <= load_checkpoint(last).part("position")[1]["step"] < 10 * 30
    again = started("-m abstain train", "--resume", "run", "--json", **afterwards)
    code, output, error = ended(again)
    assert code == 0, error
    resumed = json.loads(output)
    whole = json.loads(run("train", *settings, "--out", "whole", "--json"))
    same = ("outcome", "epoch", "step", "samples")
    assert [resumed[name] for name in same] == [whole[name] for name in same]
    assert resumed["test_accuracy"] == pytest.approx(whole["test_accuracy"], abs=0.05)
    visits = pq.read_table(here / "run" / "ledger.parquet")["visits"].to_pylist()
    assert visits == [10] * 60


def test_it_is_quiet_where_nobody_watches():
    code, output, error = ended(
        started("-m abstain train blobs.npz", "--epochs", 2, "--out", "run")
    )
    assert (code, error) == (0, "")
    assert output.startswith("Done: ")


@pytest.mark.parametrize("launcher", [TORCHRUN, ACCELERATE], ids=["torchrun", "accelerate"])
def test_launchers_start_one_process(here, launcher):
    process = started(f"{launcher.format(1)} abstain train", *DIGITS, "--out", "run", "--json")
    code, output, error = ended(process)
    assert code == 0, error
    assert json.loads(output)["test_accuracy"] > 0.9
    assert about(here / "run")["processes"] == 1
    assert about(here / "run")["machine"]["device"] == torch.cuda.get_device_name()


def test_more_processes_than_gpus_are_refused_in_one_line(here):
    gpus = torch.cuda.device_count()
    launcher = TORCHRUN.format(gpus + 1)
    code, output, error = ended(started(f"{launcher} abstain train", *DIGITS, "--out", "run"))
    assert code != 0
    assert output == ""
    errors = [line for line in error.splitlines() if line.startswith("abstain: ")]
    assert len(errors) == 1, error
    assert errors[0].startswith(f"abstain: processes must be at most {gpus}, one for each GPU")
    assert "[rank" not in error  # what torch writes before a traceback of ours
    assert not (here / "run").exists()


def test_many_processes_train_where_the_gpus_are_hidden(here):
    launcher = TORCHRUN.format(2)
    arguments = ["blobs.npz", "--epochs", 2, "--out", "run", "--json"]
    code, output, error = ended(started(f"{launcher} abstain train", *arguments, **WITHOUT_GPU))
    assert code == 0, error
    assert json.loads(output)["folder"] == "run"
    assert about(here / "run")["processes"] == 2
    assert about(here / "run")["machine"]["device"] == "cpu"
