"""Planted duplicates, outliers, dark and blurry images: `abstain.checks` and cleanlab's Datalab.

    python bench/datalab.py --data-dir DATA     measure, and write results/datalab.json
    python bench/datalab.py --report            write the tables of docs/checks.md from it

DATA holds `real/` and `cifar10/` as for `bench/cases.py`, `imdb/` and `mnist/`. Both are given the
same features and labels of the same samples, and every fault is planted by itself. Seconds are the
best of two runs one after the other, and begin with the features. Datalab checks images by the
package cleanvision; where that is not installed, only `abstain.checks` is measured there.
"""

import argparse
import contextlib
import io
import json
import os
import time
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from planted_faults import planted
from sklearn.metrics import average_precision_score, f1_score

from abstain.checks.check import check
from abstain.checks.neighbours import EXACT_UP_TO, Index

ROOT = Path(__file__).resolve().parents[1]
RESULT, PAGE = ROOT / "results/datalab.json", ROOT / "docs/checks.md"
SETS = {
    "digits": "digits, a table",
    "wine": "wine, a table",
    "iris": "iris, a table *",
    "mnist-5k": "mnist-5k",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "imdb": "IMDB",
    "noisyag": "news headlines",
    "md_offensive": "tweets *",
    "climate_fever": "claims on the climate *",
}
"""Those with a star had no part in choosing thresholds."""
FAULTS = {
    "near_duplicate": ("near duplicates", "duplicates"),
    "outlier": ("outliers", "outliers"),
    "dark": ("dark", "images"),
    "blurry": ("blurry", "images"),
}
SIZES = (25_000, 50_000, 100_001, 200_000, 400_000)
MARKS = {x: (f"<!-- {x}: bench/datalab.py -->\n", "<!-- end -->\n") for x in ("faults", "scale")}


def ours(data, features, name):
    found = check(data, features, checks=(FAULTS[name][1],))
    return found.columns[f"is_{name}_issue"], found.columns[f"{name}_score"]


def datalab(data, features, name):
    """None for images, where cleanvision is not installed."""
    from cleanlab import Datalab

    if FAULTS[name][1] == "images":
        return None
    with contextlib.redirect_stdout(io.StringIO()):
        lab = Datalab(data={"label": data.given.numpy()}, label_name="label", verbosity=0)
        lab.find_issues(features=features.numpy(), issue_types={name: {}})
    issues = lab.get_issues(name)
    return issues[f"is_{name}_issue"].to_numpy(), issues[f"{name}_score"].to_numpy()


def measured(method, data, features, name, bad):
    times = []
    for _ in range(2):
        began = time.perf_counter()
        found = method(data, features, name)
        times.append(time.perf_counter() - began)
    if found is None:
        return None
    is_issue, score = found
    return {
        "f1": round(float(f1_score(bad, is_issue)), 4),
        "ap": round(float(average_precision_score(bad, -score)), 4),
        "flagged": int(is_issue.sum()),
        "seconds": round(min(times), 3),
    }


def cases(samples, seed, data_dir, names):
    for name in names:
        made = planted(name, samples, seed, data_dir)
        for fault in (x for x in FAULTS if x in made.fault):
            data, features, bad = made.only(fault)
            about = {"set": name, "fault": fault, "samples": len(data), "planted": int(bad.sum())}
            about["columns"] = features.shape[1]
            for method in (ours, datalab):
                about[method.__name__] = measured(method, data, features, fault, bad)
            print(json.dumps(about), flush=True)
            yield about


def scale(size, columns=384):
    """Seconds for the ten neighbours of every sample, and how many of the right ones are found."""
    rng = np.random.default_rng(0)
    centres, turn = rng.normal(size=(200, 32)), rng.normal(size=(32, columns))
    points = centres[rng.integers(200, size=size)] + 0.7 * rng.normal(size=(size, 32))
    rows = (points @ turn + 0.5 * rng.normal(size=(size, columns))).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    wall, cpu = time.perf_counter(), time.process_time()
    found = Index.of(rows).neighbours()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    some = rng.choice(size, 300, replace=False)
    near = rows[some] @ rows.T
    near[np.arange(300), some] = -1
    right = np.argpartition(-near, 10, axis=1)[:, :10]
    recall = np.mean([np.isin(right[k], found.index[some[k]]).mean() for k in range(300)])
    library = "scikit-learn" if size <= EXACT_UP_TO else "usearch"
    line = {"samples": size, "columns": columns, "library": library, "seconds": round(wall, 1),
            "cpu_seconds": round(cpu, 1), "recall": round(float(recall), 4)}  # fmt: skip
    print(json.dumps(line), flush=True)
    return line


def fault_table(result):
    """F1 and seconds side by side, a line per set and fault."""
    figures = ("F1", "average precision", "seconds")
    head = "".join(f" {x} | Datalab's |" for x in figures)
    lines = [f"| | planted |{head}", "|---" * 8 + "|"]
    for fault, (called, _) in FAULTS.items():
        rows = [x for x in result["cases"] if x["fault"] == fault]
        for x in rows:
            about = f"{called}: {SETS[x['set']]}", f"{x['planted']} of {x['samples']:,}"
            lines.append(_line(about, x["ours"], x["datalab"]))
        parts = [[x[m] for x in rows if x[m]] for m in ("ours", "datalab")]
        means = [{k: float(np.mean([x[k] for x in y])) for k in ("f1", "ap", "seconds")}
                 if y else None for y in parts]  # fmt: skip
        lines.append(_line((f"**{called}: mean**", ""), *means))
    return "\n".join(lines) + "\n"


def _line(about, mine, other):
    cells = []
    for figure, form in (("f1", ".2f"), ("ap", ".2f"), ("seconds", ".2f")):
        cells += [f"{x[figure]:{form}}" if x else "–" for x in (mine, other)]
    return f"| {' | '.join((*about, *cells))} |"


def scale_table(result):
    """Seconds by number of samples, and what they say of a million."""
    lines = ["| samples × columns | by | seconds | CPU seconds | of the ten nearest found |",
             "|---|---|---|---|---|"]  # fmt: skip
    lines += [
        f"| {x['samples']:,} × {x['columns']} | {x['library']} | {x['seconds']:.0f} | "
        f"{x['cpu_seconds']:.0f} | {x['recall']:.1%} |"
        for x in result["scale"]
    ]
    before, last = result["scale"][-2:]
    times = last["cpu_seconds"] / before["cpu_seconds"]
    power = np.log(times) / np.log(last["samples"] / before["samples"])
    million = last["cpu_seconds"] * (1e6 / last["samples"]) ** power
    lines += [
        "",
        f"From {before['samples']:,} to {last['samples']:,} samples CPU seconds grow {times:.1f} "
        f"times. If that goes on, a million would take {million:,.0f} CPU seconds, "
        f"{million / 120:.1f} minutes on two free cores; that was not measured.",
    ]
    return "\n".join(lines) + "\n"


def page():
    """docs/checks.md with the figures of the result."""
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("faults", fault_table), ("scale", scale_table)):
        before, begin, rest = text.partition(MARKS[name][0])
        _, end, after = rest.partition(MARKS[name][1])
        text = before + begin + table(result) + end + after
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--samples", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--report", action="store_true", help="only write docs/checks.md")
    options = parser.parse_args()
    if not options.report:
        lines = list(cases(options.samples, options.seed, options.data_dir, options.sets))
        sizes = [scale(x) for x in SIZES] if len(options.sets) == len(SETS) else []
        versions = {x: version(x) for x in ("cleanlab", "scikit-learn", "usearch", "numpy")}
        head = {"versions": versions, "seed": options.seed}
        parts = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
        for name, items in (("cases", lines), ("scale", sizes)):
            parts.append(f'"{name}": [\n' + ",\n".join(map(json.dumps, items)) + "\n]")
        RESULT.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
