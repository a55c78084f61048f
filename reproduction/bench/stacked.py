"""Many small models at once against one after another: training samples per second.

    python -m reproduction.bench.stacked [--networks mnist-cnn lstm] [--data mnist.npz] [--runs]

Both ways keep the data on the GPU, record a step as a CUDA graph and use the same precision. How
far it is to the limits of the chip is measured beside it: by one large matrix product, one large
copy, and the time of every kernel of a step. With --runs it also trains 6 methods × 3 seeds for 50
epochs, twice, as the first time compiles; with --data (arrays x_train, y_train, x_test, y_test) the
accuracies of these runs mean something.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from abstain.losses import gamblers_loss
from abstain.models import build_model
from abstain.training.recipe import plan_of
from reproduction.stacked.runs import Run, epoch_orders
from reproduction.stacked.trainer import StackedTask, _Stack, train_stacked

SHAPES = {
    "mnist-cnn": (1, 28, 28),
    "cifar-cnn": (3, 32, 32),
    "mlp": (1, 28, 28),
    "lstm": (200,),
    "lstm-attention": (200,),
}
BATCH = 128
WORDS, DIMENSIONS, HIDDEN = 50_000, 100, 256
EPOCHS = 5  # timed, after one that is not


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
    recipe = plan_of(method, **{"batch": BATCH, "epochs": 50, "flip": 0.5, **changes})
    return recipe.resolved(num_samples=len(task.true), num_classes=task.num_classes)


def stack_of(task, models, precision):
    recipe = resolved(task, precision=precision)
    recipes = [replace(recipe, seed_init=k, seed_order=k) for k in range(models)]
    runs = [
        Run.begin(k, r, task.inputs, task.true, task.num_classes) for k, r in enumerate(recipes)
    ]
    return _Stack(task, runs, torch.device("cuda"), keep_samples=False), runs


def seconds_of(epoch):
    """Median over epochs of how long one takes; `epoch` is called with its number."""
    times = []
    for number in range(1 + EPOCHS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        epoch(number)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def stacked_rate(task, stack, runs):
    """Samples per second over all models, in an epoch without evaluation."""
    orders = [epoch_orders(runs, number) for number in range(1 + EPOCHS)]
    seconds = seconds_of(lambda number: stack.train(number, orders[number]))
    return len(runs) * len(task.true) / seconds


def kernels_of(stack, runs, steps=20):
    """Microseconds of a step by kernel, and how often each is launched."""
    stack.train(0, epoch_orders(runs, 0))
    stack._stepper._position.zero_()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(steps):
            stack._stepper.step()
        torch.cuda.synchronize()
    found = [
        {
            "kernel": event.key,
            "launches": event.count / steps,
            "microseconds": event.self_device_time_total / steps,
        }
        for event in profiled.key_averages()
        if event.self_device_time_total > 0
    ]
    return sorted(found, key=lambda kernel: -kernel["microseconds"])


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

    def epoch(_):
        for part in batches:
            index.copy_(part)
            replay()

    return len(batches) * BATCH / seconds_of(epoch)


def limits():
    """Measure the limits of the chip: bf16 operations and bytes copied per second."""
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    source = torch.empty(2**31, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    product = seconds_of(lambda _: [a @ b for _ in range(10)]) / 10
    copy = seconds_of(lambda _: [target.copy_(source) for _ in range(10)]) / 10
    return {"operations": 2 * size**3 / product, "bytes": 2 * len(source) / copy}


def bytes_of_step(network, models):
    """Bytes that a step of all models has to move in bf16, if all between two layers is free.

    A layer reads what comes in twice (for its answer, for the slope of its weights), and the slope
    of what goes out twice; it writes both once. Adam reads four numbers a weight and writes three.
    """
    model = build_model(network, input_shape=SHAPES[network], num_outputs=11, seed=0)
    passed = []
    for layer in model.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            layer.register_forward_hook(
                lambda _, came, went: passed.append(3 * came[0].numel() + 3 * went.numel())
            )
    model(torch.zeros(1, *SHAPES[network]))
    weights = sum(weight.numel() for weight in model.parameters())
    return models * (2 * BATCH * sum(passed) + 4 * 7 * weights)


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


def measure(network, precision, numbers, chip):
    """One network in one precision: alone, then so many at once; the last of them by kernel."""
    task = random_task(network)
    alone = {kind: alone_rate(task, precision, kind == "graph") for kind in ("eager", "graph")}
    rates = ", ".join(f"{kind} {rate:,.0f}/s" for kind, rate in alone.items())
    print(f"{network} {precision}: alone, {rates}")
    stacked, kernels = {}, []
    for models in numbers:
        stack, runs = stack_of(task, models, precision)
        rate = stacked[models] = stacked_rate(task, stack, runs)
        step = models * BATCH / rate
        print(
            f"{network} {precision}: {models:3d} at once {rate:12,.0f}/s, "
            f"{rate / alone['eager']:6.1f} times eager, {rate / alone['graph']:5.1f} times graph, "
            f"{1e6 * step:6.0f} µs a step, {1e-12 * rate * operations(network):.0f} TFLOP/s",
            flush=True,
        )
        if models == max(numbers):
            kernels = kernels_of(stack, runs)
    found = {"network": network, "precision": precision, "alone": alone, "stacked": stacked}
    found |= {"kernels": kernels}
    if precision == "bf16" and not network.startswith("lstm"):
        models = max(numbers)
        found["least_seconds"] = least = {
            "arithmetic": models * BATCH * operations(network) / chip["operations"],
            "memory": bytes_of_step(network, models) / chip["bytes"],
        }
        busy = sum(kernel["microseconds"] for kernel in kernels)
        launches = sum(kernel["launches"] for kernel in kernels)
        print(
            f"  {models} at once, a step: {1e6 * least['arithmetic']:.0f} µs of arithmetic, "
            f"{1e6 * least['memory']:.0f} µs of memory at the rates of this chip; "
            f"{busy:.0f} µs in {launches:.0f} kernels"
        )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--networks", nargs="*", default=["mnist-cnn"], choices=list(SHAPES))
    parser.add_argument("--precisions", nargs="*", default=["bf16", "fp32"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    chip = limits()
    name = torch.cuda.get_device_name()
    print(
        f"{name}: {1e-12 * chip['operations']:.0f} TFLOP/s, {1e-12 * chip['bytes']:.2f} TB/s copied"
    )
    found = {"device": name, "torch": torch.__version__, "limits": chip, "rates": [], "runs": []}

    def keep():
        if arguments.out:
            arguments.out.write_text(json.dumps(found, indent=1))

    for network in arguments.networks:
        for precision in arguments.precisions:
            found["rates"].append(measure(network, precision, arguments.models, chip))
            keep()
    if arguments.runs:
        task = (
            task_from(arguments.data)
            if arguments.data
            else random_task("mnist-cnn", 60_000, 10_000)
        )
        for precision in arguments.precisions:
            for kind in ("first", "again"):
                seconds, accuracies = all_runs(task, arguments.epochs, precision)
                print(f"18 runs of {arguments.epochs} epochs, {precision}, {kind}: {seconds:.1f} s")
                found["runs"].append(
                    {
                        "precision": precision,
                        "kind": kind,
                        "seconds": seconds,
                        "accuracies": accuracies,
                    }
                )
                keep()
            for method, values in accuracies.items():
                print(f"  {method:12s} {100 * statistics.mean(values):6.2f} %  {values}")


if __name__ == "__main__":
    main()
