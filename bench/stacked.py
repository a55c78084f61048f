"""Many small models at once against one after another: training samples per second.

    python bench/stacked.py [--networks mnist-cnn lstm-attention] [--data mnist.npz] [--runs]

Both ways keep the data on the GPU, record a step as a CUDA graph and use the same precision. With
--runs it also trains 6 methods × 3 seeds for 50 epochs and prints how long that took; with --data
(arrays x_train, y_train, x_test, y_test) the accuracies of these runs mean something.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from abstain.losses import gamblers_loss
from abstain.models import build_model
from abstain.train.recipe import Recipe
from abstain.train.stacked import StackedTask, _Stack, train_stacked
from abstain.train.stacked_runs import Run, epoch_orders

SHAPES = {
    "mnist-cnn": (1, 28, 28),
    "cifar-cnn": (3, 32, 32),
    "mlp": (1, 28, 28),
    "lstm": (200,),
    "lstm-attention": (200,),
}
BATCH = 128
WORDS, DIMENSIONS, HIDDEN = 50_000, 100, 256


def random_texts(network, samples=2_560, tests=1_000):
    rng = torch.Generator().manual_seed(0)
    shape = (samples + tests, *SHAPES[network])
    tokens = torch.randint(1, WORDS, shape, dtype=torch.int32, generator=rng)
    labels = torch.randint(0, 2, (samples + tests,), generator=rng)
    return StackedTask(
        inputs=tokens[:samples],
        true=labels[:samples],
        test_inputs=tokens[samples:],
        test_labels=labels[samples:],
        num_classes=2,
        network=network,
        vectors=torch.randn(WORDS, DIMENSIONS, generator=rng),
    )


def random_task(network, samples=20_000, tests=1_000):
    if network.startswith("lstm"):
        return random_texts(network)
    rng = torch.Generator().manual_seed(0)
    shape = SHAPES[network]
    images = torch.randint(0, 256, (samples + tests, *shape), dtype=torch.uint8, generator=rng)
    labels = torch.randint(0, 10, (samples + tests,), generator=rng)
    return StackedTask(
        inputs=images[:samples],
        true=labels[:samples],
        test_inputs=images[samples:],
        test_labels=labels[samples:],
        num_classes=10,
        network=network,
    )


def task_from(path):
    arrays = {name: torch.from_numpy(array) for name, array in np.load(path).items()}
    return StackedTask(
        inputs=arrays["x_train"],
        true=arrays["y_train"],
        test_inputs=arrays["x_test"],
        test_labels=arrays["y_test"],
        num_classes=10,
        network="mnist-cnn",
    )


def resolved(task, method="schedule", **changes):
    recipe = Recipe.of(method, **{"batch": BATCH, "epochs": 50, "flip": 0.5, **changes})
    return recipe.resolved(num_samples=len(task.true), num_classes=task.num_classes)


def stacked_rate(task, models, precision):
    """Samples per second over all models, in an epoch without evaluation."""
    recipe = resolved(task, precision=precision)
    recipes = [replace(recipe, seed_init=k, seed_order=k) for k in range(models)]
    runs = [
        Run.begin(k, r, task.inputs, task.true, task.num_classes) for k, r in enumerate(recipes)
    ]
    stack = _Stack(task, runs, torch.device("cuda"), keep_samples=False)
    times = []
    for epoch in range(3):
        orders = epoch_orders(runs, epoch)
        torch.cuda.synchronize()
        start = time.perf_counter()
        stack.train(epoch, orders)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return models * len(task.true) / min(times[1:])


def alone_rate(task, precision, recorded):
    """Samples per second of one model: its inputs resident, its optimiser fused, no host copies."""
    model = build_model(
        task.network,
        input_shape=SHAPES[task.network],
        num_outputs=task.num_classes + 1,
        vectors=task.vectors,
        seed=0,
    )
    model = model.cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), fused=True, capturable=True)
    inputs, labels = task.inputs.cuda(), task.true.cuda()
    index = torch.zeros(BATCH, dtype=torch.int64, device="cuda")

    def step():
        batch = inputs[index]
        if task.vectors is None:
            batch = batch.float().div(255).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            logits = model(batch).float()
        optimizer.zero_grad()
        gamblers_loss(logits, labels[index], "euc").backward()
        optimizer.step()

    replay = record(step) if recorded else step
    order = torch.randperm(len(labels), device="cuda")
    batches = [part for part in order.split(BATCH) if len(part) == BATCH]
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for part in batches:
            index.copy_(part)
            replay()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return len(batches) * BATCH / min(times[1:])


def operations(network):
    """Floating-point operations of a training step per sample, as torch counts them."""
    if network.startswith("lstm"):  # which it does not: four gates a token, and their slopes
        return 2 * SHAPES[network][0] * 4 * HIDDEN * (2 * DIMENSIONS + 3 * HIDDEN)
    model = build_model(network, input_shape=SHAPES[network], num_outputs=11, seed=0)
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, *SHAPES[network])).sum().backward()
    return counter.get_total_flops()


def record(step):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def methods(task, epochs, precision):
    """Six methods, three seeds each."""
    named = {
        "nll": {},
        "gamblers": {"payoff": 9.99, "warm_up": 0},
        "schedule": {"guard": 1e-8, "warm_up": 2},
        "small-stake": {"warm_up": 2},
        "lq": {},
        "exp": {"warm_up": 2},
    }
    return [
        resolved(
            task,
            method,
            epochs=epochs,
            precision=precision,
            **changes,
            **dict.fromkeys(("seed_noise", "seed_init", "seed_order"), seed),
        )
        for method, changes in named.items()
        for seed in range(3)
    ]


def all_runs(task, epochs, precision):
    recipes = methods(task, epochs, precision)
    start = time.perf_counter()
    results = train_stacked(task, recipes)
    seconds = time.perf_counter() - start
    accuracies = {}
    for recipe, result in zip(recipes, results, strict=True):
        accuracies.setdefault(recipe.method, []).append(result.test_accuracy)
    return seconds, accuracies


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, nargs="*", default=[1, 8, 32, 64])
    parser.add_argument("--networks", nargs="*", default=["mnist-cnn"], choices=list(SHAPES))
    parser.add_argument("--precisions", nargs="*", default=["bf16", "fp32"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    found = []
    for network in arguments.networks:
        task = random_task(network)
        for precision in arguments.precisions:
            alone = {
                kind: alone_rate(task, precision, kind == "graph") for kind in ("eager", "graph")
            }
            rates = ", ".join(f"{kind} {rate:,.0f}/s" for kind, rate in alone.items())
            print(f"{network} {precision}: alone, {rates}")
            for models in arguments.models:
                start = time.perf_counter()
                rate = stacked_rate(task, models, precision)
                print(
                    f"{network} {precision}: {models:3d} at once {rate:12,.0f}/s, "
                    f"{rate / alone['eager']:6.1f} times eager, {rate / alone['graph']:5.1f} times "
                    f"graph, {1e6 * models * BATCH / rate:6.0f} µs a step, "
                    f"{1e-12 * rate * operations(network):.0f} TFLOP/s "
                    f"({time.perf_counter() - start:.0f} s with set-up)",
                    flush=True,
                )
                found.append([network, precision, models, rate, alone])
    if arguments.runs:
        task = (
            task_from(arguments.data)
            if arguments.data
            else random_task("mnist-cnn", 60_000, 10_000)
        )
        for precision in arguments.precisions:
            seconds, accuracies = all_runs(task, arguments.epochs, precision)
            print(f"18 runs of {arguments.epochs} epochs, {precision}: {seconds:.1f} s")
            for method, values in accuracies.items():
                print(f"  {method:12s} {100 * statistics.mean(values):6.2f} %  {values}")
            found.append([precision, seconds, accuracies])
    if arguments.out:
        arguments.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
