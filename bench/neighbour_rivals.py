"""Our search for neighbours beside pynndescent: CPU time, and how many of the true ones are found.

    python bench/neighbour_rivals.py DATA results/neighbour-rivals.json [SIZE]

Rows are sentences of IMDB by WordLlama, as in bench/datalab.py, at the unit sphere on which the
checks compare them. What is true is found for 500 of them by comparing them with all others. Each
search runs in a process of its own, with two threads; seconds are those of the CPU, which other
programs on the machine change less than the clock. pynndescent compiles itself in the first use;
that is done before, on 2,000 rows, and not counted. It is no dependency: `pip install pynndescent`.
"""

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

K, ASKED = 10, 500


def rows_of(data_dir, size):
    from datalab import sentences

    from abstain.checks.neighbours import rows_of as as_compared

    return as_compared(sentences(size, data_dir, columns=256)[:size])


def true_neighbours(rows):
    asked = np.random.default_rng(0).choice(len(rows), ASKED, replace=False)
    nearness = rows[asked] @ rows.T
    nearness[np.arange(ASKED), asked] = -np.inf
    return asked, np.argpartition(-nearness, K, axis=1)[:, :K]


def ours(rows):
    from abstain.checks.neighbours import Index

    return Index.of(rows).neighbours(K).index


def pynndescent(rows, kept=K + 1):
    """Its descent keeps more neighbours than are asked for, which finds more of the true ones."""
    from pynndescent import NNDescent

    search = NNDescent(rows, metric="euclidean", n_neighbors=kept, random_state=0, n_jobs=2)
    index = search.neighbor_graph[0]
    own = index == np.arange(len(rows))[:, None]
    return np.stack([row[~mine][:K] for row, mine in zip(index, own, strict=True)])


WAYS = {
    "ours": ours,
    "pynndescent": pynndescent,
    "pynndescent, 30 kept": partial(pynndescent, kept=30),
    "pynndescent, 60 kept": partial(pynndescent, kept=60),
}


def run(name, path):
    import torch

    torch.set_num_threads(2)
    rows = np.load(path)
    search = WAYS[name]
    search(rows[:2000])
    began, clock = time.process_time(), time.monotonic()
    found = search(rows)
    spent = time.process_time() - began, time.monotonic() - clock
    asked, true = true_neighbours(rows)
    shares = [np.isin(found[k], best).mean() for k, best in zip(asked, true, strict=True)]
    spent = [round(x, 1) for x in spent]
    print(json.dumps({"name": name, "cpu_seconds": spent[0], "seconds": spent[1],
                      "recall": round(float(np.mean(shares)), 4)}))  # fmt: skip


def main():
    data_dir, output = sys.argv[1:3]
    size = int(sys.argv[3]) if len(sys.argv) > 3 else 120_000
    path = Path(output).with_suffix(".npy")
    np.save(path, rows_of(data_dir, size))
    found = []
    env = {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    for name in WAYS:
        done = subprocess.run([sys.executable, __file__, "--one", name, str(path)], env=env,
                              check=True, capture_output=True, text=True)  # fmt: skip
        found.append({"samples": size, "columns": 256, **json.loads(done.stdout.splitlines()[-1])})
        print(found[-1])
    path.unlink()
    Path(output).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(*sys.argv[2:]) if sys.argv[1] == "--one" else main()
