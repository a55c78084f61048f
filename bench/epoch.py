"""Measure the cost of an epoch, on the MNIST CNN and the 4,000 training images of mnist-5k.

The guarded schedule with its ledger, cross-entropy in the same loop, and the plain way of training
(a DataLoader over float32 tensors, softmax then log), two by two in turn in one run, each as the
median of its epochs; only ratios mean something. Accuracy is that on the 1,000 test images after
the same number of epochs.

    python bench/epoch.py [--epochs 12] [--flip 0.2] [--threads 2]
"""

import argparse
import multiprocessing
import os
import random
import statistics
import time

from abstain.cli.process import tune_process

if __name__ == "__main__":
    tune_process()  # as the command line does, before torch starts; the plain way goes without

import torch
import torch.nn.functional as F  # noqa: N812
from accelerate import Accelerator
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader, TensorDataset

from abstain.data import fit_encoder, load
from abstain.noise import plant
from abstain.scores.ledger import Ledger
from abstain.training.loop.batches import Batches, Task
from abstain.training.loop.loop import Loop
from abstain.training.loop.step import layout_for
from abstain.training.objective.losses import Objective
from abstain.training.plan import Plan
from abstain.training.saving.run_folder import make_model

BATCH, LEARNING_RATE, PAYOFF = 128, 1e-3, 9.99
TARGET_LOOP, TARGET_PLAIN = 1.05, 0.5


class CrossEntropy(Objective):
    """Plain cross-entropy on all outputs, by torch."""

    def __call__(self, logits, given, *_):
        return F.cross_entropy(logits, given, reduction="none")

    def payoff(self, logits, epoch):
        return None


class NoLedger:
    """Keeps nothing."""

    def update(self, *arguments, **settings):
        pass

    def state_dict(self):
        return {}


def make_loop(data, encoder, inputs, layout, objective, ledger):
    recipe = Plan(epochs=10_000, warm_up=0, batch=BATCH, learning_rate=LEARNING_RATE)
    rows = torch.arange(len(data))
    batches = Batches(inputs=inputs, rows=rows, size=BATCH, seed=0, device=torch.device("cpu"))
    task = Task(encoder=encoder, num_classes=10, training=batches, given=data.given)
    accelerator = Accelerator(cpu=True, mixed_precision="no")  # as `train` has it
    model = make_model("mnist-cnn", encoder, 10, seed=0)
    return Loop(
        model,
        task,
        recipe,
        accelerator=accelerator,
        layout=layout,
        ledger=ledger,
        objective=objective(recipe),
    )


def plain_way(data, encoder):
    """A DataLoader over float32 tensors, softmax, log, Adam."""
    images = encoder.to_model(encoder.encode(data)).clone()
    loader = DataLoader(TensorDataset(images, data.given), batch_size=BATCH, shuffle=True)
    model = make_model("mnist-cnn", encoder, 10, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def epoch(warm_up):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            f = torch.softmax(model(x), -1)
            reserve = 0 if warm_up else f[:, -1] / PAYOFF
            loss = -torch.log(f.gather(-1, y[:, None]).squeeze(-1) + reserve + 1e-10).mean()
            loss.backward()
            optimizer.step()
            loss.item()

    return model, epoch


def plain_process(pipe, flip, threads):
    """The plain way in a process of its own, with nothing tuned: an epoch for every request."""
    if threads:
        torch.set_num_threads(threads)
    data, test, encoder = noisy_digits(flip)
    model, run_epoch = plain_way(data, encoder)
    pipe.send("ready")
    while (epoch := pipe.recv()) is not None:
        run_epoch(epoch < 2)
        pipe.send("done")
    pipe.send(accuracy(model, encoder, test))


def noisy_digits(flip):
    data, test = load("mnist-5k"), load("mnist-5k", split="test")
    flips = plant(data.given.numpy(), data.ids, "symmetric", flip, 0, num_classes=10)
    object.__setattr__(data, "given", torch.from_numpy(flips.given))
    return data, test, fit_encoder(data)


def ratio(one, other, epochs):
    """Median time of an epoch of one over that of the other, measured in turn."""
    times = {one: [], other: []}
    for epoch in range(epochs):
        # In another order each time: what runs first finds the caches of what ran before.
        for run in random.sample([one, other], 2):
            start = time.perf_counter()
            run(epoch)
            times[run].append(time.perf_counter() - start)
    return statistics.median(times[one][1:]) / statistics.median(times[other][1:])


@torch.no_grad()
def accuracy(model, encoder, test):
    model.eval()
    answers = model(encoder.to_model(encoder.encode(test)))[:, :-1].argmax(-1)
    return (answers == test.given).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--flip", type=float, default=0.2)
    parser.add_argument("--threads", type=int, help="the default of torch if not given")
    arguments = parser.parse_args()
    if arguments.threads:  # setting what is already so would make small operations slower
        torch.set_num_threads(arguments.threads)
    data, test, encoder = noisy_digits(arguments.flip)
    inputs = encoder.encode(data)
    example = encoder.to_model(inputs[:BATCH])
    layout = layout_for("auto", device=example.device, batch=tuple(example.shape))

    ours = make_loop(data, encoder, inputs, layout, Objective, Ledger(len(data)))
    nll = make_loop(data, encoder, inputs, layout, CrossEntropy, NoLedger())
    os.environ.pop("OMP_WAIT_POLICY", None)
    pipe, other_end = multiprocessing.Pipe()
    plain = multiprocessing.get_context("spawn").Process(
        target=plain_process, args=(other_end, arguments.flip, arguments.threads)
    )
    plain.start()
    pipe.recv()

    def plain_epoch(epoch):
        pipe.send(epoch)
        pipe.recv()

    over_nll = ratio(lambda _: ours.train_epoch(), lambda _: nll.train_epoch(), arguments.epochs)
    # A loop of its own, so that both sides of this comparison begin untrained too.
    again = make_loop(data, encoder, inputs, layout, Objective, Ledger(len(data)))
    over_plain = ratio(lambda _: again.train_epoch(), plain_epoch, arguments.epochs)
    pipe.send(None)
    plain_accuracy = pipe.recv()
    plain.join()
    table = Table("guarded schedule with ledger, over", "time of an epoch", "aim", "test accuracy")
    table.title = f"MNIST CNN, {len(data)} images, {torch.get_num_threads()} threads, {layout}"
    table.add_row(
        "cross-entropy in the same loop, no ledger",
        f"{over_nll:.3f}",
        f"≤ {TARGET_LOOP}",
        f"{accuracy(nll.learner.plain_model, encoder, test):.1%}",
    )
    table.add_row(
        "DataLoader, float32, softmax then log",
        f"{over_plain:.3f}",
        f"≤ {TARGET_PLAIN}",
        f"{plain_accuracy:.1%}",
    )
    table.caption = (
        f"test accuracy of the first: {accuracy(ours.learner.plain_model, encoder, test):.1%}"
    )
    Console().print(table)


if __name__ == "__main__":
    main()
