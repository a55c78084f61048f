"""Small trainings in real processes, for the tests of this folder.

Processes come from a fork server that has everything imported: they start in milliseconds, and are
as real to signals and to gloo as any other.
"""

import multiprocessing
import os
import socket
import time
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from abstain.data import fit_encoder, load
from abstain.scores.ledger import Ledger
from abstain.training.loop.batches import Batches, Task, held_out_rows
from abstain.training.loop.loop import Loop
from abstain.training.loop.step import Layout
from abstain.training.plan import Plan
from abstain.training.recipe import plan_of
from abstain.training.train import train

PROCESSES = multiprocessing.get_context("forkserver")
# Besides our own: what torch and pyarrow import only when first used, which takes seconds.
PROCESSES.set_forkserver_preload(
    ["abstain.training.train", "torch._dynamo", "torch.utils.tensorboard", "pyarrow.parquet"]
)

NET64 = """
import torch

class Net(torch.nn.Module):
    # float64, so that the order in which processes add up does not show
    def __init__(self, num_outputs, input_shape):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(input_shape[0], 8), torch.nn.Tanh(), torch.nn.Linear(8, num_outputs)
        ).double()

    def forward(self, x):
        return self.layers(x.double())
"""

SLOW_DROPOUT_NET = """
import time
import torch

class Net(torch.nn.Module):
    def __init__(self, num_outputs, input_shape):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(input_shape[0], 16), torch.nn.ReLU(), torch.nn.Dropout(0.5),
            torch.nn.Linear(16, num_outputs),
        )

    def forward(self, x):
        time.sleep(0.002)  # leaves time to be killed in
        return self.layers(x)
"""


class Reads64(torch.nn.Module):
    """A network in float64 on inputs in float32."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, inputs):
        return self.network(inputs.double())


def blobs(count, classes=3, features=5, seed=0):
    """Points around one centre per class: learnt in a few steps."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    centres = rng.normal(size=(classes, features)) * 3
    points = centres[labels] + rng.normal(size=(count, features))
    return points.astype(np.float32), np.array([f"class {label}" for label in labels])


def loop_on_blobs(method="nll", *, model=None, count=20, weights=None, parts=None, **settings):
    """A training of a linear model on points, in this process, that has not begun."""
    data = load(blobs(count))
    encoder = fit_encoder(data)
    recipe = plan_of(method, **{"epochs": 2, "batch": 8} | settings)
    recipe = recipe.resolved(num_samples=count, num_classes=3)
    held_out, rest = held_out_rows(recipe, count)

    def batches(rows):
        inputs, device = encoder.encode(data), torch.device("cpu")
        return Batches(inputs=inputs, rows=rows, size=recipe.batch, seed=0, device=device)

    task = Task(
        encoder=encoder,
        num_classes=3,
        training=batches(rest),
        given=data.given,
        weights=weights,
        hold_out=batches(held_out) if len(held_out) else None,
    )
    if model is None:
        model = torch.nn.Linear(5, 4)
        for parameter in model.parameters():
            torch.nn.init.zeros_(parameter)
    return Loop(
        model, task, recipe, accelerator=Accelerator(cpu=True), layout=Layout(),
        ledger=Ledger(count), **(parts or {}),
    )  # fmt: skip


def save_blobs(folder, count, **settings):
    """As a file, which a run can load again."""
    x, y = blobs(count, **settings)
    path = Path(folder) / "blobs.npz"
    np.savez(path, x=x, label=y)
    return path


def save_net(folder, text):
    path = Path(folder) / "net.py"
    path.write_text(text)
    return f"{path}:Net"


def weights(folder):
    return load_file(Path(folder) / "model.safetensors")


def assert_same_weights(one, two, **tolerance):
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        if tolerance:
            torch.testing.assert_close(tensor, two[name], **tolerance)
        else:
            assert torch.equal(tensor, two[name]), name


def start(arguments, *, rank=0, world=1, port=0, wait=True):
    """Train in a process of its own; its exit code is 0 if all went well."""
    process = PROCESSES.Process(target=_child, args=(arguments, rank, world, port))
    process.start()
    if wait:
        process.join(120)
        assert process.exitcode == 0
    return process


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start_many(arguments, world=2, *, wait=True):
    """Train in several processes that know of each other as torchrun would tell them."""
    port = free_port()
    processes = [
        start(arguments, rank=rank, world=world, port=port, wait=False) for rank in range(world)
    ]
    if wait:
        for process in processes:
            process.join(120)
            assert process.exitcode == 0
    return processes


def as_torchrun_sets(rank, world, port):
    """The environment of one of several processes."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }


def _child(arguments, rank, world, port):
    torch.set_num_threads(1)
    if world > 1:
        os.environ |= as_torchrun_sets(rank, world, port)
    arguments = dict(arguments)
    if "recipe" in arguments:
        arguments["recipe"] = Plan.from_json(arguments["recipe"])
    train(**arguments)


def wait_until(happened, process, seconds=60):
    """Poll until something has happened; whether it did before the process ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if happened():
            return True
        if process.exitcode is not None:
            return False
        time.sleep(0.0005)
    raise AssertionError("it never happened")
