"""One process or several: the same order, the same weights, every sample once.

Grouped by what is started, real processes, not by a module; and GPUs, one for each. Tests of
plan.py and agreement.py.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import small_runs as small

from abstain.errors import AbstainError
from abstain.training.processes import _processes_here, _wants_cpu, check_gpus
from abstain.training.recipe import plan_of
from abstain.training.saving.checkpoint import load_checkpoint

# Divisible neither by the batch nor by 2; the last batch is one sample, and leaves a process none.
SAMPLES, BATCH = 43, 7


@pytest.fixture
def begun(tmp_path):
    source = small.save_blobs(tmp_path, SAMPLES)
    model = small.save_net(tmp_path, small.NET64)

    def arguments(name, **settings):
        settings = {"batch": BATCH, "model": model, "learning_rate": 0.01} | settings
        recipe = plan_of(settings.pop("method", "schedule"), **settings)
        out = tmp_path / name
        where = {"source": str(source), "test": str(source), "folder": str(out)}
        return out, {**where, "recipe": recipe.as_json()}

    return arguments


def assert_same_run(one, two, epochs):
    small.assert_same_weights(small.weights(one), small.weights(two), rtol=1e-9, atol=1e-12)
    ledgers = [pq.read_table(folder / "ledger.parquet").to_pydict() for folder in (one, two)]
    for name in ("id", "given", "visits", "wrong"):
        assert ledgers[0][name] == ledgers[1][name], name
    assert ledgers[0]["visits"] == [epochs] * SAMPLES
    for name in ("belief", "margin", "abstention", "payoff"):
        np.testing.assert_allclose(ledgers[0][name], ledgers[1][name], rtol=1e-5, atol=1e-6)
    histories = [pq.read_table(folder / "steps.parquet").to_pydict() for folder in (one, two)]
    assert histories[0].keys() == histories[1].keys()
    for name in histories[0]:
        np.testing.assert_allclose(histories[0][name], histories[1][name], rtol=1e-9, err_msg=name)
    epoch_ends = [pq.read_table(folder / "epochs.parquet").to_pydict() for folder in (one, two)]
    assert epoch_ends[0]["test_accuracy"] == epoch_ends[1]["test_accuracy"]


def test_two_processes_train_the_weights_and_the_ledger_of_one(begun):
    settings = {"epochs": 4, "warm_up": 1, "flip": 0.2, "clip": 1.0}
    one, arguments = begun("one", **settings)
    small.start(arguments)
    two, arguments = begun("two", **settings)
    small.start_many(arguments)
    assert json.loads((two / "run.json").read_text())["processes"] == 2
    assert_same_run(one, two, epochs=4)


def test_two_processes_see_by_one_backbone_though_each_finds_another_quicker():
    program = """
from abstain.embed.choice import ChosenBackbone
from abstain.data.source import Source
from abstain.training import sources as prepared
from abstain.training.processes import join_processes
from abstain.training.processes import _processes_here, _wants_cpu, check_gpus
from abstain.training.plan import Plan
from abstain.training.recipe import plan_of
state = join_processes()
own = ("small:wordllama", "small:minilm")[state.process_index]
prepared.choose = lambda *_, **__: ChosenBackbone(own, "the only one within 1s")
sources = Source((["good", "bad"] * 5, [0, 1] * 5))
found, recipe = prepared.prepare(sources, Plan(), "auto", state, budget=1)
assert found.backbone.name == recipe.backbone == "small:wordllama", own
state.destroy_process_group()  # or a thread of it may end the process by an abort
"""
    port = small.free_port()
    environments = [os.environ | small.as_torchrun_sets(rank, 2, port) for rank in range(2)]
    processes = [subprocess.Popen([sys.executable, "-c", program], env=x) for x in environments]
    assert [process.wait(120) for process in processes] == [0, 0]


def test_no_process_is_left_a_single_sample_where_a_batch_norm_needs_two(begun, tmp_path):
    text = small.NET64.replace("torch.nn.Tanh()", "torch.nn.BatchNorm1d(8)")
    (tmp_path / "own").mkdir()
    model = small.save_net(tmp_path / "own", text)
    out, arguments = begun("two", epochs=2, warm_up=1, model=model)
    small.start_many(arguments)
    assert pq.read_table(out / "ledger.parquet").to_pydict()["visits"] == [2] * SAMPLES
    steps = pq.read_table(out / "steps.parquet").to_pydict()["step"]
    assert len(steps) == 2 * (SAMPLES // BATCH)


def test_all_processes_stop_at_the_same_step(begun):
    # With 20% wrong and three classes the plateau comes after some tens of steps.
    settings = {"method": "aes", "rate": 0.2, "flip": 0.2, "epochs": 60}
    summaries = []
    for name, start in (("one", small.start), ("two", small.start_many)):
        out, arguments = begun(name, **settings)
        start(arguments)
        summaries.append(json.loads((out / "summary.json").read_text()))
    assert "has reached the plateau" in summaries[0]["outcome"]
    assert summaries[0]["outcome"] == summaries[1]["outcome"]
    assert summaries[0]["step"] == summaries[1]["step"] < 60 * 7


def test_validation_stop_is_agreed_and_keeps_the_best_epoch(begun):
    settings = {"method": "ves", "flip": 0.3, "epochs": 40, "patience": 3, "warm_up": 1}
    outs = []
    for name, start in (("one", small.start), ("two", small.start_many)):
        out, arguments = begun(name, **settings)
        start(arguments)
        outs.append(out)
    small.assert_same_weights(*map(small.weights, outs), rtol=1e-9, atol=1e-12)
    summary = json.loads((outs[1] / "summary.json").read_text())
    history = pq.read_table(outs[1] / "epochs.parquet").to_pydict()
    best = int(np.argmax(history["validation_accuracy"]))
    assert summary["epoch"] == best + 1 < len(history["epoch"])
    assert summary["validation_accuracy"] == history["validation_accuracy"][best]


def test_a_run_of_two_processes_that_is_killed_goes_on_in_one_or_in_two(begun, tmp_path):
    one, arguments = begun("one", epochs=6, warm_up=1)
    small.start(arguments)
    two, arguments = begun("two", epochs=6, warm_up=1)
    processes = small.start_many({**arguments, "save_every": 0.0}, wait=False)
    reached = small.wait_until((two / "last.safetensors").exists, processes[0])
    for process in processes:
        process.kill()
        process.join()
    assert reached
    assert not (two / "summary.json").exists(), "it ended before it could be killed"
    position = load_checkpoint(two / "last.safetensors").part("position")[1]
    assert 0 < position["step"] < 6 * 7
    again = shutil.copytree(two, tmp_path / "again")
    small.start({"folder": str(two), "resume": True})
    assert_same_run(one, two, epochs=6)
    small.start_many({"folder": str(again), "resume": True})
    assert_same_run(one, again, epochs=6)


TORCHRUN = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 2 -m"
ACCELERATE = f"{sys.executable} -m accelerate.commands.launch --cpu"
MPIRUN = "mpirun --oversubscribe -n 2"
needs_mpi = pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")


def launch(launcher, *arguments):
    """Run the command line under a launcher."""
    settings = {"OMP_NUM_THREADS": "1", "MASTER_PORT": str(small.free_port())}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run(
        [*launcher.split(), "abstain", "train", *arguments],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, **as_root, **settings},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("launcher", "processes"),
    [
        (TORCHRUN, 2),
        pytest.param(f"{ACCELERATE} -m", 1, marks=pytest.mark.slow),
        # Several processes on CPUs Accelerate leaves to MPI, and takes them for one otherwise.
        pytest.param(
            f"{ACCELERATE} --num_processes 2 --mpirun_hostfile HOSTS --main_process_port PORT -m",
            2,
            marks=[needs_mpi, pytest.mark.slow],
        ),
        pytest.param(f"{MPIRUN} {sys.executable} -m", 2, marks=[needs_mpi, pytest.mark.slow]),
    ],
    ids=["torchrun", "accelerate", "accelerate-mpi", "mpirun"],
)
def test_launchers_run_the_command_line(begun, tmp_path, launcher, processes):
    one, arguments = begun("one", epochs=2, warm_up=1)
    small.start(arguments)
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=2\n")
    launcher = launcher.replace("HOSTS", str(hosts)).replace("PORT", str(small.free_port()))
    two, source, net = tmp_path / "two", arguments["source"], arguments["recipe"]["model"]
    settings = f"--batch {BATCH} --lr 0.01 --epochs 2 --warm-up 1 --method schedule --json".split()
    done = launch(launcher, source, *settings, "--test", source, "--model", net, "--out", str(two))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["folder"] == str(two)  # once, by one process
    assert json.loads((two / "run.json").read_text())["processes"] == processes
    assert_same_run(one, two, epochs=2)


def test_one_process_reports_what_is_wrong(tmp_path):
    done = launch(TORCHRUN, str(tmp_path / "nowhere.csv"), "--out", str(tmp_path / "run"))
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if "nowhere.csv" in line]
    assert len(lines) == 1
    assert lines[0].startswith("abstain: source must be a file or folder that exists")
    assert "rank1" not in done.stderr  # what torch writes before a traceback of ours


def test_the_process_that_speaks_may_come_late(tmp_path):
    # All are wrong before they meet, and a launcher ends all as soon as one has ended.
    late = tmp_path / "late.py"
    late.write_text(
        "import os, sys, time\n"
        "time.sleep(2 * (os.environ['RANK'] == '0'))\n"
        "from abstain.cli import main\n"
        "main(['train', 'digits', '--epochs', '0'])\n"
    )
    done = subprocess.run(
        [*TORCHRUN.removesuffix(" -m").split(), str(late)],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.count("abstain: --epochs must be a whole number, at least 1, got 0\n") == 1


@pytest.mark.slow
def test_ctrl_c_that_a_launcher_passes_on_saves_and_is_reported_once(tmp_path):
    source = small.save_blobs(tmp_path, SAMPLES)
    model = small.save_net(tmp_path, small.SLOW_DROPOUT_NET)
    settings = f"--model {model} --batch {BATCH} --epochs 2000 --out {tmp_path / 'run'}".split()
    process = subprocess.Popen(
        [*TORCHRUN.split(), "abstain", "train", str(source), *settings],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    last = tmp_path / "run" / "last.safetensors"
    deadline = time.monotonic() + 60
    while not last.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, error = process.communicate(timeout=60)
    assert error.count("Interrupted and saved. Go on with: ") == 1, error
    assert f" --nproc-per-node 2 -m abstain train --resume {tmp_path / 'run'}\n" in error
    assert 0 < load_checkpoint(last).part("position")[1]["step"] < 2000 * 7


@pytest.mark.parametrize(("processes", "gpus"), [(1, 1), (1, 8), (2, 2), (7, 8)])
def test_a_gpu_for_each_process_is_enough(processes, gpus):
    check_gpus(processes, gpus)


@pytest.mark.parametrize(("processes", "gpus"), [(2, 1), (9, 8)])
def test_more_processes_than_gpus_are_refused_with_a_remedy(processes, gpus):
    with pytest.raises(AbstainError) as refused:
        check_gpus(processes, gpus)
    message = str(refused.value)
    assert message.startswith(f"processes must be at most {gpus}, one for each GPU of this machine")
    assert f"got {processes}: start fewer" in message
    assert "CUDA_VISIBLE_DEVICES= " in message


@pytest.mark.parametrize(
    "name", ["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"]
)
def test_launchers_say_how_many_processes_are_here(monkeypatch, name):
    assert _processes_here() == 1
    monkeypatch.setenv("WORLD_SIZE", "16")  # on all machines together
    monkeypatch.setenv(name, "4")
    assert _processes_here() == 4


def test_accelerate_may_ask_for_the_cpu(monkeypatch):
    assert not _wants_cpu()
    for value, wanted in (("True", True), ("False", False), ("1", True)):
        monkeypatch.setenv("ACCELERATE_USE_CPU", value)
        assert _wants_cpu() == wanted
