"""Measure the gain of bf16 and channels-last on this processor, by kind and size of the inputs.

An epoch of plain steps (forward, cross-entropy, backward, Adam) of a default network, in each
layout in turn; only ratios mean something. `Layout` (training/loop/step.py) follows from it.

    python bench/precision.py [--threads 2] [--out results/precision.json]
"""

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from abstain.models import build_model
from abstain.training.loop.step import Layout, computes_bf16

ROUNDS = 5
CASES = [
    ("mlp", (256,), 20_000, 512),
    ("mlp", (1280,), 50_000, 512),
    ("mnist-cnn", (1, 28, 28), 2_048, 128),
]


def epoch(model, optimizer, layout, inputs, labels, batch):
    began = time.perf_counter()
    for start in range(0, len(inputs) - batch + 1, batch):
        part = layout.lay(inputs[start : start + batch])
        with layout.autocast(part.device):
            logits = model(part)
        optimizer.zero_grad()
        cross_entropy(logits.float(), labels[start : start + batch]).backward()
        optimizer.step()
    return time.perf_counter() - began


def measured(network, shape, rows, batch):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(rows, *shape, generator=generator)
    labels = torch.randint(0, 10, (rows,), generator=generator)
    formats = (False, True) if len(shape) == 3 else (False,)
    layouts = [Layout(last, kind) for last in formats for kind in ("fp32", "bf16")]
    seconds = {layout: [] for layout in layouts}
    steps = {}
    for layout in layouts:
        model = layout.place(build_model(network, input_shape=shape, num_outputs=11, seed=0))
        steps[layout] = model, torch.optim.Adam(model.parameters(), fused=True)
    for turn in range(ROUNDS + 1):
        for layout, taken in seconds.items():
            taken.append(epoch(*steps[layout], layout, inputs, labels, batch))
        if turn == 0:  # in the first, memory is got and kernels are chosen
            seconds = {layout: [] for layout in layouts}
    plain = seconds[layouts[0]]
    return [
        {
            "network": network,
            "shape": list(shape),
            "rows": rows,
            "batch": batch,
            "precision": layout.precision,
            "channels_last": layout.channels_last,
            "seconds": round(min(taken), 4),
            "of_plain": round(
                statistics.median(x / y for x, y in zip(taken, plain, strict=True)), 3
            ),
        }
        for layout, taken in seconds.items()
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    for case in CASES:
        for row in measured(*case):
            rows.append(row)
            print(row, flush=True)
    bf16 = computes_bf16(torch.device("cpu"))
    about = {"threads": arguments.threads, "bf16": bf16, "torch": torch.__version__}
    if arguments.out:
        text = json.dumps({**about, "machine": platform.machine(), "rows": rows}, indent=1)
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
