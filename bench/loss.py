"""Measure the gambler's loss: forward and backward over cross-entropy on the same logits, CPU.

Times are medians of repeats taken in turn in one run, on one thread; only their ratios mean
something. Memory is the peak above what is held before, of one forward and backward pass.

    python bench/loss.py [--quick]
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F  # noqa: N812
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from abstain import GamblersLoss

# (rows, outputs), the ratio aimed at, repeats
CASES = [
    ((128, 11), 3.0, 2000),
    ((128, 1001), 2.1, 500),
    ((4096, 11), 0.5, 300),
    ((512, 50001), 1.3, 9),
]
PAYOFF = 9.99
MEMORY_CASE, MEMORY_GOAL = (512, 50001), 1.1


def softmax_then_log(logits, target):
    """The usual way, which loses gradients at confident points and overflows in half precision."""
    f = torch.softmax(logits, -1)
    return -torch.log(f.gather(-1, target.unsqueeze(-1)).squeeze(-1) + f[:, -1] / PAYOFF).mean()


LOSSES = {
    "cross-entropy": F.cross_entropy,
    "fixed payoff": GamblersLoss(PAYOFF),
    "guarded euc": GamblersLoss("euc"),
    "softmax-then-log": softmax_then_log,
}


def step(loss, logits, target):
    logits.grad = None
    loss(logits, target).backward()


def seconds(losses, logits, target, repeats):
    """The median time of each loss, measured in turn so that all see the same machine."""
    times = {name: [] for name in losses}
    for repeat in range(repeats + 3):
        for name, loss in losses.items():
            # The first repeats warm caches up; several passes in a row, as a training loop has it.
            passes = max(1, min(20, repeats // 50))
            start = time.perf_counter()
            for _ in range(passes):
                step(loss, logits, target)
            if repeat >= 3:
                times[name].append((time.perf_counter() - start) / passes)
        if passes > 1 and repeat >= repeats // passes:
            break
    return {name: statistics.median(values) for name, values in times.items()}


def peak_bytes(loss, logits, target):
    """Peak of what one pass allocates beyond the logits themselves."""
    step(loss, logits, target)
    logits.grad = None
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        step(loss, logits, target)
    held = peak = 0
    for event in sorted(record.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def make(shape):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(*shape, generator=generator).requires_grad_()
    return logits, torch.randint(0, shape[1] - 1, shape[:1], generator=generator)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the repeats, no (512, 50001)"
    )
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    table = Table(
        "logits", "cross-entropy", *list(LOSSES)[1:], "aim", title="time over cross-entropy"
    )
    for shape, goal, repeats in CASES:
        if quick and shape == MEMORY_CASE:
            continue
        times = seconds(LOSSES, *make(shape), repeats // 10 if quick else repeats)
        base = times.pop("cross-entropy")
        ratios = [f"{value / base:.2f}" for value in times.values()]
        table.add_row(str(shape), f"{base * 1e6:,.0f} µs", *ratios, f"≤ {goal}")
    console = Console()
    console.print(table)
    if not quick:
        logits, target = make(MEMORY_CASE)
        peaks = {name: peak_bytes(loss, logits, target) for name, loss in LOSSES.items()}
        table = Table(
            "logits", "cross-entropy", *list(LOSSES)[1:], "aim", title="peak memory over it"
        )
        base = peaks.pop("cross-entropy")
        ratios = [f"{value / base:.2f}" for value in peaks.values()]
        table.add_row(str(MEMORY_CASE), f"{base / 2**20:,.0f} MiB", *ratios, f"≤ {MEMORY_GOAL}")
        console.print(table)


if __name__ == "__main__":
    main()
