"""One training against five: our audit beside cleanlab, AUM and the loss of the last epoch.

    python bench/audit.py [--data mnist-5k …] [--seeds 0 1 2] [--kinds symmetric …]
                          [--methods abstain cleanlab nll] [--device auto|cpu] [--threads 1]
                          [--minutes 45] [--jobs 1 [--alone 1]]
    python bench/audit.py --prepare FOLDER      the sets, decoded: elsewhere, --prepared FOLDER
    python bench/audit.py --rejudge --ledgers FOLDER      our verdict of today on what was kept
    python bench/audit.py --report

Labels are made wrong on purpose; what is wrong is known only to the part that counts. Three sides
see the same labels, train the same network in the same loop, for as many epochs, with the same
batch, each in a process of its own, one after the other:

- abstain: `abstain.audit()` as it is, one training; `label_score`, the flags, the estimated rate.
- cleanlab: five trainings by cross-entropy, each on four fifths of the labels; the probabilities of
  the held-out fifths go to cleanlab, which ranks by self-confidence, by normalized margin, and
  prunes.
- nll: one training by cross-entropy; AUM (the logit of the given label less the largest other one,
  averaged over the epochs) and the loss in the last epoch.

Results are appended to results/audit-bench.jsonl as they come, a line per side. What is there (for
these versions) is not run again, so the work can be done in pieces, and on several machines: put
their lines together. Where cleanlab is not installed, `--cleanlab FOLDER` names a folder that its
wheel was unpacked in. At the end, or with --report alone, docs/audit-bench.md is made from all
that is there.

A GPU is not filled by one small network. With `--jobs N`, the first `--alone` settings of each set
are run as above, one after the other, and the rest by N processes side by side: their rankings
count, their times do not. `--ledgers FOLDER` keeps what our trainings saw, so that a verdict that
has become better since can be had of it without a GPU.
"""

import argparse
import io
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from multiprocessing import get_context
from pathlib import Path

# Asking for a GPU must not set CUDA up in this process, whose children could then not use it.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import numpy as np
import torch
import torch._dynamo  # what an optimiser's first step would load, at the cost of the first side

import abstain
import abstain.train.loop
from abstain import Recipe, belief, noise
from abstain.audit import audit
from abstain.data import BUILTIN, load
from abstain.data.cache import read_entry, write_entry
from abstain.scores.detection import detection
from abstain.scores.label_quality import label_quality
from abstain.scores.ledger import Ledger
from abstain.scores.noise_rate import estimate_noise
from abstain.train.batches import Batches, resident
from abstain.train.history import History
from abstain.train.run import train
from abstain.train.tally import Tally
from abstain.train.trained import Trained

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results/audit-bench.jsonl", ROOT / "docs/audit-bench.md"
FRESH = ROOT / "results/audit-fresh.jsonl"
"""Our side alone, with seeds that no rule was mended by: --methods abstain --results FRESH."""
TABLES, LARGE = ("digits as a table", "breast cancer"), ("fashion-mnist", "cifar10", "imdb")
SETS = (*TABLES, "mnist-5k", *LARGE)
EPOCHS = {"mnist-5k": 15, "fashion-mnist": 15, "cifar10": 15, "imdb": 10}
"""Tables are trained for as long as a recipe does by itself."""
SAMPLES = dict.fromkeys(LARGE, 10_000)
"""Of large sets, so many at random: every kind of noise tells more than every sample."""
NOISE = [
    *(("symmetric", rate) for rate in (0.1, 0.2, 0.4, 0.6)),
    *(("pairflip", rate) for rate in (0.2, 0.4)),
    *(("instance", rate) for rate in (0.2, 0.4)),
]
TELLING = ["symmetric 0.2", "symmetric 0.4", "pairflip 0.4", "instance 0.4", "instance 0.2"]
"""What to run first; the rest is more of the same."""
SIDES = ("abstain", "cleanlab", "nll")
FOLDS = 5
ENOUGH_WINS, TIME_GOAL = 0.9, 0.25


# ── The data ──────────────────────────────────────────────────────────────────────────────────────


def load_set(name, samples=None, prepared=None):
    """The training part of a set or some of it, every label right as far as anyone knows."""
    if prepared is None:
        data = load_whole(name)
        order = np.random.default_rng(0).permutation(len(data))
    else:
        data = read_prepared(name, prepared)
        order = np.arange(len(data))  # drawn at random when it was prepared
    wanted = samples or SAMPLES.get(name, len(data))
    return data if wanted >= len(data) else subset(data, order[:wanted])


def load_whole(name):
    if name not in TABLES:
        return load(name)
    from sklearn.datasets import load_breast_cancer, load_digits

    read = load_digits if name == "digits as a table" else load_breast_cancer
    features, labels = read(return_X_y=True)
    return replace(load((features.astype(np.float32), labels)), name=name)


def read_prepared(name, folder):
    data = read_entry(folder / f"{name}.safetensors")
    if data is None:
        raise SystemExit(f"{folder} holds no {name}: put it there with --prepare")
    return replace(data, word_vectors=folder / "vectors") if data.kind == "text" else data


def prepare(name, folder):
    """Write what `read_prepared` reads, for a machine that has neither the set nor its reader."""
    data = load_set(name)
    write_entry(folder / f"{name}.safetensors", data)
    if data.word_vectors is not None:
        (folder / "vectors").mkdir(exist_ok=True)
        for file in data.word_vectors.iterdir():
            shutil.copyfile(file, folder / "vectors" / file.name)


def settings(num_classes):
    """Kinds and rates of noise; of two classes, pairflip is symmetric noise, label by label."""
    return [(kind, rate) for kind, rate in NOISE if num_classes > 2 or kind != "pairflip"]


def plant(data, kind, rate, seed):
    """The data with wrong labels and no trace of the right ones, and which labels are wrong."""
    manifest = noise.plant(
        data.given.numpy(),
        np.asarray(data.ids),
        kind,
        rate,
        seed,
        num_classes=data.num_classes,
        features=numbers(data) if kind == "instance" else None,
    )
    return replace(data, given=torch.from_numpy(manifest.given), true=None), manifest.flipped


def numbers(data, columns=256):
    """Inputs as rows of numbers; for texts, the shares of hashed words."""
    if isinstance(data.inputs, torch.Tensor):
        return data.inputs.flatten(1).float().numpy()
    counts = np.zeros((len(data), columns), np.float32)
    for row, text in zip(counts, data.inputs, strict=True):
        words = [zlib.crc32(word.encode()) % columns for word in text.lower().split()]
        row += np.bincount(words, minlength=columns) / max(len(words), 1)
    return counts


def subset(data, rows):
    inputs = data.inputs
    picked = inputs[rows] if isinstance(inputs, torch.Tensor) else [inputs[i] for i in rows]
    return replace(data, inputs=picked, given=data.given[rows], ids=[data.ids[i] for i in rows])


# ── The sides: each sees given labels only, and returns rankings (low = bad), flags and rates ─────


def by_abstain(data, recipe):
    found = audit(data, recipe)
    return our_verdict(found.quality, found.estimate, found.trained.ledger) | {
        "recipe": found.trained.recipe.as_json(),
        "ended": found.trained.epoch,
        "saw": {
            "epochs": np.array(json.dumps(found.trained.history.epochs)),
            **{name: x.numpy() for name, x in found.trained.ledger.state_dict().items()},
        },
    }


def our_verdict(quality, estimate, ledger):
    return {
        # The evidence has no prior: recorded, to know what that gains and costs.
        "rankings": {
            "abstain": quality.label_score,
            "evidence": np.nan_to_num(ledger.evidence.numpy()),
        },
        "flags": {"abstain": estimate.is_label_issue},
        "rates": {"abstain": estimate.rate.value},
        "expected": expectations(quality, estimate),
    }


def expectations(quality, estimate):
    """The worst labels of ten review budgets, up to as many as are flagged; how many wrong."""
    worst, flagged = quality.worst_first(), int(estimate.is_label_issue.sum())
    sizes = [max(1, round(tenth * flagged / 10)) for tenth in range(1, 11)]
    return [(worst[:size], estimate.expected_wrong(size)) for size in sizes]


def by_cleanlab(data, recipe):
    from cleanlab.count import estimate_joint, num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    given = data.given.numpy()
    probabilities = np.empty((len(data), data.num_classes), np.float32)
    for held_out in stratified_folds(given, FOLDS, recipe.seed_order):
        rest = np.setdiff1d(np.arange(len(data)), held_out)
        trained = train(subset(data, rest), recipe)
        probabilities[held_out] = predict(trained, subset(data, held_out))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        confidence, margin = (
            get_label_quality_scores(given, probabilities, method=name)
            for name in ("self_confidence", "normalized_margin")
        )
        pruned = find_label_issues(given, probabilities, n_jobs=1)
        joint = estimate_joint(given, probabilities)
        issues = num_label_issues(given, probabilities)
    return {
        "rankings": {
            "self-confidence": confidence,
            "normalized margin": margin,
            "pruned first": confidence - pruned,
        },
        "flags": {"cleanlab": pruned},
        "rates": {"joint": 1 - float(np.trace(joint)), "count": issues / len(data)},
        "recipe": trained.recipe.as_json(),
    }


def by_nll(data, recipe):
    recorded = {}

    class RecordingTally(Tally):
        """Also sums the margins of logits, and keeps the loss of the last visit."""

        def add(self, index, logits, losses):
            super().add(index, logits, losses)
            classes, given = logits.detach()[:, :-1], self.given[index][:, None]
            if not recorded:
                recorded["margin"] = torch.zeros(len(self.given), device=logits.device)
                recorded["loss"] = torch.zeros(len(self.given), device=logits.device)
            others = classes.scatter(1, given, -torch.inf).amax(1)
            recorded["margin"][index] += classes.gather(1, given)[:, 0] - others
            recorded["loss"][index] = losses.detach()

    plain, abstain.train.loop.Tally = abstain.train.loop.Tally, RecordingTally
    try:
        trained = train(data, recipe)
    finally:
        abstain.train.loop.Tally = plain
    return {
        "rankings": {
            "AUM": recorded["margin"].cpu().numpy() / trained.recipe.epochs,
            "last loss": -recorded["loss"].cpu().numpy(),
        },
        "flags": {},
        "rates": {},
        "recipe": trained.recipe.as_json(),
    }


BY = {"abstain": by_abstain, "cleanlab": by_cleanlab, "nll": by_nll}


def stratified_folds(given, folds, seed):
    """Rows of each fold: every class is dealt out evenly, in random order."""
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(given))
    by_class = shuffled[np.argsort(given[shuffled], kind="stable")]
    return [np.sort(by_class[first::folds]) for first in range(folds)]


@torch.inference_mode()
def predict(trained, data):
    """Probabilities of the classes, by a trained model."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    inputs = resident(trained.encoder.encode(data), device)
    rows = torch.arange(len(data))
    batches = Batches(inputs=inputs, rows=rows, size=512, seed=0, device=device)
    model = trained.model.to(device).eval()
    parts = [
        belief(model(trained.encoder.to_model(batch.inputs)).float()).cpu()
        for batch in batches.in_order()
    ]
    return torch.cat(parts).numpy()


# ── One measurement ───────────────────────────────────────────────────────────────────────────────


def measured(side, data, recipe, threads):
    """What a side finds, with time and memory, from a process of its own."""
    context = get_context("fork")  # the data are there at once, and modules are loaded
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(sender, side, data, recipe, threads))
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        process.join()
        raise SystemExit(f"{side} on {data.name} died with {process.exitcode}") from None
    process.join()
    if isinstance(result, str):
        raise SystemExit(result)
    return result


def _measure(sender, side, data, recipe, threads):
    try:
        torch.set_num_threads(threads)
        _warm_up()
        before = _peak_mib()
        found = timed(side, data, recipe)
        found |= {"peak_mib": _peak_mib(), "gained_mib": _peak_mib() - before}
        sender.send(found)
    except BaseException:
        sender.send(traceback.format_exc())


def timed(side, data, recipe):
    """What a side finds, and how long it took."""
    began, began_cpu = time.perf_counter(), time.process_time()
    found = BY[side](data, recipe)
    found |= {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
    if torch.cuda.is_available():
        found["gpu_mib"] = torch.cuda.max_memory_allocated() / 2**20
    return found


def _warm_up():
    """A training that nobody asked for: what a process does but once is no side's work."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(32, 4)).astype(np.float32)
    train((features, np.arange(32) % 2), Recipe.of("nll", epochs=1))


def _peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def judged(found, wrong):
    """Rankings, flags and rates against the truth, as plain numbers."""
    none = np.zeros(len(wrong), bool)
    row = {"truth": float(wrong.mean()), "rankings": {}, "flags": {}, "rates": {}}
    for name, score in found["rankings"].items():
        seen = detection(score, none, wrong)
        row["rankings"][name] = {"auroc": seen.auroc, "ap": seen.average_precision}
    for name, flags in found["flags"].items():
        seen = detection(none, flags, wrong)
        count = int(flags.sum())
        row["flags"][name] = {"f1": seen.f1 if count else 0.0, "flagged": count}
    for name, rate in found["rates"].items():
        row["rates"][name] = {"value": rate, "error": abs(rate - row["truth"])}
    if "expected" in found:
        row["reviews"] = [
            {
                "size": len(worst),
                "expected": interval.value / len(worst),
                "found": float(wrong[worst].mean()),
                "covered": int(wrong[worst].sum()) in interval,
            }
            for worst, interval in found["expected"]
        ]
    kept = ("seconds", "cpu_seconds", "peak_mib", "gained_mib", "gpu_mib")
    kept += ("device", "recipe", "ended")
    return row | {name: found[name] for name in kept if name in found}


def recipe_of(piece, data):
    """The recipe of a side with its sizes settled on the whole set, so that folds have the same."""
    seeds = dict.fromkeys(("seed_noise", "seed_init", "seed_order"), piece["seed"])
    method = "auto" if piece["side"] == "abstain" else "nll"
    recipe = Recipe.of(method, epochs=piece["epochs"], **seeds)
    whole = recipe.resolved(num_samples=len(data), num_classes=data.num_classes)
    return replace(recipe, epochs=whole.epochs, batch=whole.batch)


# ── The results ───────────────────────────────────────────────────────────────────────────────────


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def versions(side):
    known = {"abstain": abstain.__version__, "torch": torch.__version__.partition("+")[0]}
    if side == "cleanlab":
        import cleanlab

        known["cleanlab"] = cleanlab.__version__
    return known


def commit():
    """Of the code; ABSTAIN_COMMIT says it where there is no repository."""
    if "ABSTAIN_COMMIT" in os.environ:
        return os.environ["ABSTAIN_COMMIT"]
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    )
    return said.stdout.strip() or None


SETTING = ("kind", "rate", "seed")


def key(row):
    names = ("data", *SETTING, "side", "epochs", "samples", "usual", "versions")
    return json.dumps([row[name] for name in names])


def run(options):
    """Every side of every setting that is not there yet."""
    end = time.monotonic() + 60 * options.minutes
    rows = read(options.results)
    there = set() if options.again else {key(row) for row in rows}
    gpu = torch.cuda.is_available()
    ours = [row for row in rows if row["side"] == "abstain" and (row["device"] != "cpu") == gpu]
    layouts = {row["data"]: layout(row) for row in ours}
    sets = {name: load_set(name, options.samples, options.prepared) for name in options.data}
    todo = [piece for piece in pieces(options, sets) if key(piece) not in there]
    alone = todo if options.jobs == 1 else of_first_settings(todo, options.alone)
    for piece in alone:
        if time.monotonic() > end:
            return
        data, wrong = planted(piece, sets)
        # What our side measured and chose; the others need not spend time on it.
        known = {} if piece["side"] == "abstain" else layouts.get(piece["data"], {})
        recipe = replace(recipe_of(piece, data), **known)
        found = measured(piece["side"], data, recipe, options.threads)
        row = piece | judged(found, wrong)
        if piece["side"] == "abstain":
            layouts[piece["data"]] = layout(row)
        keep(row, options, jobs=1, saw=found.get("saw"))
    rest = [piece for piece in todo if piece not in alone]
    if rest:
        side_by_side(rest, sets, layouts, end, options)


def pieces(options, sets):
    """The sides of all settings, what tells most first: lines of the results, less the results."""
    wanted = [
        {"data": name, "kind": kind, "rate": rate, "seed": seed, "classes": data.num_classes}
        for seed in options.seeds
        for name, data in sets.items()
        for kind, rate in settings(data.num_classes)
        if kind in options.kinds
    ]
    wanted.sort(key=lambda row: (not can_be_known(row), row["seed"], is_more_of_the_same(row)))
    for setting in wanted:
        data = sets[setting["data"]]
        for side in options.methods:
            piece = setting | {"side": side, "versions": versions(side), "samples": len(data)}
            piece["usual"] = options.epochs is None and options.samples is None
            piece["epochs"] = options.epochs or EPOCHS.get(setting["data"])
            yield piece | {"epochs": recipe_of(piece, data).epochs}


def is_more_of_the_same(setting):
    return f"{setting['kind']} {setting['rate']}" not in TELLING


def of_first_settings(todo, count):
    """The pieces of the first settings of each set."""
    first = defaultdict(dict)
    for piece in todo:
        first[piece["data"]][tuple(piece[name] for name in SETTING)] = None
    return [
        piece
        for piece in todo
        if tuple(piece[name] for name in SETTING) in list(first[piece["data"]])[:count]
    ]


def planted(piece, sets):
    return plant(sets[piece["data"]], *(piece[name] for name in SETTING))


def keep(row, options, jobs, saw=None):
    """Append a line to the results and, where asked to, what our training saw to its file."""
    row |= {"jobs": jobs, "threads": options.threads, "machine": machine(), "commit": commit()}
    append(row, options.results)
    if saw is not None and options.ledgers is not None:
        options.ledgers.mkdir(parents=True, exist_ok=True)
        place = f"ledgers-{row['data']}-{row['seed']}.zip".replace(" ", "-")
        entry = io.BytesIO()
        np.savez_compressed(entry, row=np.array(json.dumps(row)), **saw)
        with zipfile.ZipFile(options.ledgers / place, "a") as file:
            file.writestr(f"{row['kind']}-{row['rate']}.npz", entry.getvalue())


def append(row, results):
    row["at"] = datetime.now(UTC).isoformat(timespec="seconds")
    results.parent.mkdir(exist_ok=True)
    with results.open("a") as file:
        file.write(json.dumps(row) + "\n")
    say(row)


def rejudge(options):
    """Our verdict as it is now, of trainings whose ledgers were kept; nothing is trained."""
    sets = {}
    for path in sorted(options.ledgers.glob("*.zip")):
        with zipfile.ZipFile(path) as file:
            saw = [dict(np.load(io.BytesIO(file.read(name)))) for name in file.namelist()]
        for one in saw:
            row, epochs = (json.loads(str(one.pop(name))) for name in ("row", "epochs"))
            name = row["data"]
            if name not in sets:
                sets[name] = load_set(name, row["samples"], options.prepared)
            data, wrong = planted(row, sets)
            ledger = Ledger(len(data))
            ledger.load_state_dict({part: torch.from_numpy(x) for part, x in one.items()})
            trained = Trained(
                model=None, encoder=None, data=data, recipe=Recipe.from_json(row["recipe"]),
                epoch=len(epochs), outcome="", history=History(epochs=epochs), ledger=ledger,
                folder=None,
            )  # fmt: skip
            quality = label_quality(ledger, data.given.numpy(), trained.held_out)
            estimate = estimate_noise(quality, data.given.numpy(), data.num_classes)
            row |= judged(our_verdict(quality, estimate, ledger), wrong)
            append(row | {"rejudged": commit()}, options.results)


# ── Many measurements side by side ────────────────────────────────────────────────────────────────


def side_by_side(todo, sets, layouts, end, options):
    """Several processes on one device, each with one piece of the work after the other."""
    failed = 0
    workers = ProcessPoolExecutor(
        options.jobs,
        mp_context=get_context("fork"),
        initializer=_be_worker,
        initargs=(sets, layouts, end, options.threads),
    )
    with shared_gpu(), workers:
        for future in as_completed([workers.submit(_work, piece) for piece in todo]):
            row, saw = future.result()
            if isinstance(row, str):
                failed += 1
                print(row, flush=True)
            elif row is not None:
                keep(row, options, options.jobs, saw)
    if failed:
        print(f"{failed} of {len(todo)} failed", flush=True)


_worker = {}
"""What a worker was born with."""


def _be_worker(sets, layouts, end, threads):
    torch.set_num_threads(threads)
    _worker.update(sets=sets, layouts=layouts, end=end)
    _warm_up()


def _work(piece):
    """The line of a piece, or how it failed; None where there is no time left. What was seen."""
    if time.monotonic() > _worker["end"]:
        return None, None
    try:
        data, wrong = planted(piece, _worker["sets"])
        # Beside others nobody can measure which layout is fastest: not even our side does.
        known = _worker["layouts"].get(piece["data"], {})
        found = timed(piece["side"], data, replace(recipe_of(piece, data), **known))
        return piece | judged(found, wrong), found.get("saw")
    except Exception:
        return f"{piece}\n{traceback.format_exc()}", None


@contextmanager
def shared_gpu():
    """Lets kernels of several processes run at once; without CUDA's MPS they take turns."""
    control = shutil.which("nvidia-cuda-mps-control")
    shared_already = "CUDA_MPS_PIPE_DIRECTORY" in os.environ
    if control is None or shared_already or not torch.cuda.is_available():
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        folders = {f"CUDA_MPS_{name}_DIRECTORY": folder for name in ("PIPE", "LOG")}
        os.environ.update(folders)
        subprocess.run([control, "-d"], check=False)
        if not _gpu_answers():
            for name in folders:
                del os.environ[name]
        print("kernels run at once" if folders.keys() <= os.environ.keys() else "in turn")
        try:
            yield
        finally:
            environment = os.environ | folders
            subprocess.run([control], input="quit\n", text=True, env=environment, check=False)
            for name in folders:
                os.environ.pop(name, None)


def _gpu_answers():
    process = get_context("fork").Process(target=torch.zeros, args=(1,), kwargs={"device": "cuda"})
    process.start()
    process.join(60)
    process.kill()
    return process.exitcode == 0


def layout(row):
    return {name: row["recipe"][name] for name in ("precision", "memory_format")}


def machine():
    return f"{platform.machine()}, {os.cpu_count()} cores"


def say(row):
    figures = "  ".join(
        f"{name} {x['auroc']:.3f}/{x['ap']:.3f}" for name, x in row["rankings"].items()
    )
    where = f"{row['data']} {row['kind']} {row['rate']} seed {row['seed']} {row['side']}"
    print(f"{where:50} {row['seconds']:6.1f} s  {figures}", flush=True)


# ── The page ──────────────────────────────────────────────────────────────────────────────────────

CLEANLAB = ("self-confidence", "normalized margin", "pruned first")
RANKINGS = ("abstain", *CLEANLAB, "AUM", "last loss")
RIVALS = {
    "cleanlab, the best of its three in each setting": CLEANLAB,
    **{f"cleanlab, {name}": (name,) for name in CLEANLAB},
    "AUM": ("AUM",),
    "loss of the last epoch": ("last loss",),
    "the best of all these in each setting": RANKINGS[1:],
}
METRICS = {"auroc": "AUROC", "ap": "average precision"}
JUDGED = {
    **{metric: (name, RANKINGS[1:]) for metric, name in METRICS.items()},
    "f1": ("F1 of the flags", ("cleanlab",)),
    "error": ("error of the rate", ("joint", "count")),
}


def complete(rows):
    """{(data, kind, rate): {seed: {side: row}}}, of the newest rows, where no side is missing.

    The sides of a setting are those that trained on as many samples for as many epochs.
    """
    alike = defaultdict(dict)
    for row in sorted(rows, key=lambda row: row["at"]):
        if row["usual"]:
            setting = tuple(row[name] for name in ("data", *SETTING, "epochs", "samples"))
            alike[setting][row["side"]] = row
    found = defaultdict(dict)
    whole = [sides for sides in alike.values() if sides.keys() == set(SIDES)]
    for sides in sorted(whole, key=lambda sides: max(row["at"] for row in sides.values())):
        data, kind, rate, seed = (sides["abstain"][name] for name in ("data", *SETTING))
        found[data, kind, rate][seed] = sides
    settings = [(data, kind, rate) for data in SETS for kind, rate in NOISE]
    return {s: dict(sorted(found[s].items())) for s in settings if s in found}


def figures(seeds):
    """Means over the seeds of a setting: what a line of the tables says."""
    merged = [
        {part: {k: v for row in sides.values() for k, v in row[part].items()} for part in PARTS}
        for sides in seeds.values()
    ]

    def mean(part, name, figure):
        return float(np.mean([one[part][name][figure] for one in merged]))

    return {
        **{
            (name, metric): mean("rankings", name, metric)
            for name in RANKINGS
            for metric in METRICS
        },
        **{(name, "f1"): mean("flags", name, "f1") for name in ("abstain", "cleanlab")},
        **{(name, "error"): mean("rates", name, "error") for name in ("abstain", "joint", "count")},
        **{
            (side, figure): _mean(sides[side][figure] for sides in seeds.values() if alone(sides))
            for side in SIDES
            for figure in ("seconds", "gained_mib")
        },
        "truth": float(np.mean([sides["abstain"]["truth"] for sides in seeds.values()])),
        "seeds": len(seeds),
    }


PARTS = ("rankings", "flags", "rates")
POINTS = 0.05


def alone(sides):
    """Whether each of the sides had the machine to itself, and its time means something."""
    return all(row.get("jobs", 1) == 1 for row in sides.values())


def _mean(values):
    values = list(values)
    return float(np.mean(values)) if values else np.nan


def is_decidable(seeds):
    return can_be_known(next(iter(seeds.values()))["abstain"])


def can_be_known(setting):
    """Where most labels of two classes are wrong, these are, for all anyone can see, the right."""
    return setting["classes"] > 2 or setting["rate"] < 0.5


def better(line, rivals, metric):
    """The rivals that have a better figure than we, to three decimals, the best first."""
    sign = -1 if metric == "error" else 1
    ours = sign * round(line["abstain", metric], 3)
    ahead = [name for name in rivals if sign * round(line[name, metric], 3) > ours]
    return sorted(ahead, key=lambda name: -sign * line[name, metric])


def wins(lines, rivals, metric):
    """For each line, whether none of the rivals is better."""
    return {setting: not better(line, rivals, metric) for setting, line in lines.items()}


def time_ratios(whole, side, figure):
    """Our time over a side's, run by run, where both ran on the same machine."""
    runs = [sides for seeds in whole.values() for sides in seeds.values() if alone(sides)]
    pairs = [(sides["abstain"], sides[side]) for sides in runs]
    same = ("device", "machine", "threads")
    return [
        ours[figure] / theirs[figure]
        for ours, theirs in pairs
        if all(ours[name] == theirs[name] for name in same)
    ]


def page(rows, fresh=()):
    whole = complete(rows)
    if not whole:
        return "# One training against five\nThere are no complete settings yet.\n"
    lines = {setting: figures(seeds) for setting, seeds in whole.items()}
    counted = {s: line for s, line in lines.items() if is_decidable(whole[s])}
    runs = sum(len(seeds) for seeds in whole.values())
    parts = [INTRODUCTION, *score_section(whole, counted, runs), *losses_section(counted)]
    for name in SETS:
        of_set = {s: line for s, line in lines.items() if s[0] == name}
        if of_set:
            parts += set_section(name, of_set, whole)
    parts += reviews_section(whole, fresh)
    parts += [*epochs_section(rows, whole), missing_section(whole), versions_section(whole)]
    return "\n".join(parts) + "\n"


INTRODUCTION = f"""# One training against five
Which labels are wrong? `abstain.audit` asks one training; cleanlab asks five, each of which has not seen the labels that it judges; AUM and the loss ask one training by cross-entropy. Here all see the same wrong labels, planted on purpose, with the same network, epochs and batch, in the same loop. This page is made by `python bench/audit.py --report` from `results/audit-bench.jsonl`.

- All sides may train for the same number of epochs: tables for as long as a recipe does by itself, images and texts for {min(EPOCHS.values())} or {max(EPOCHS.values())}, as each section says. *abstain* ends sooner where more would hardly change the order of the labels, which it judges without knowing any true one. Where the epochs are too many for cross-entropy, a section below says what fewer would have given.
- Of the large sets a part is drawn at random, once: {", ".join(f"{n:,} of {name}" for name, n in SAMPLES.items())}. All kinds of noise on a part say more than some of them on the whole.
- *abstain*: `audit()` as it is; ranked by `label_score`. *cleanlab*: {FOLDS}-fold cross-validation; self-confidence, normalized margin, and *pruned first* (what `find_label_issues` prunes before the rest, each by self-confidence). *AUM*: the margin of logits, averaged over the epochs. *last loss*: the loss in the last epoch, as the training met each sample.
- Flags: `is_label_issue` against what `find_label_issues` prunes by default. Rates: `noise_rate` against one less the trace of cleanlab's joint, and against its `num_label_issues`. AUM's own way to flag takes further trainings and is not here.
- Time is that of all trainings and the verdict, without reading data or writing a report; each side in a process of its own, one after the other. Memory is what that process gained at its peak. Five trainings on four fifths each are the steps of four, so a quarter of cleanlab's time is one plain training. Where others use the machine too, processor time is the steadier figure. Settings that were run side by side on one machine have neither (–).
- Of two classes, pairflip is symmetric noise, label by label, and is left out. With 60% of two classes wrong, no one can know which 60%: shown (†), not counted.
- "Better or equal" compares means over seeds to three decimals.
"""  # noqa: E501


def score_section(whole, counted, runs):
    n = len(counted)
    yield f"## The score\n{n} settings (a data set, a kind and a rate), {runs} runs of each side.\n"
    yield "| better than or equal to | AUROC | average precision | both |\n|---|---|---|---|"
    for name, rivals in RIVALS.items():
        by_metric = [wins(counted, rivals, metric) for metric in METRICS]
        both = sum(all(won[setting] for won in by_metric) for setting in counted)
        cells = [f"{sum(won.values())} of {n}" for won in by_metric]
        yield f"| {name} | {' | '.join(cells)} | {both} of {n} |"
    f1, error = (wins(counted, JUDGED[metric][1], metric) for metric in ("f1", "error"))
    yield (
        f"\nAgainst cleanlab, the flags have a better or equal F1 in {sum(f1.values())} of {n} "
        f"settings, and the estimated rate is as near or nearer in {sum(error.values())} (than "
        "the nearer of its two)."
    )
    first = [wins(counted, CLEANLAB, metric) for metric in METRICS]
    enough = all(sum(won.values()) >= ENOUGH_WINS * n for won in first)
    yield (
        f"\nThe aim, {ENOUGH_WINS:.0%} of the settings against cleanlab in each of the two, is "
        f"**{'met' if enough else 'missed'}** on what was run."
    )
    for side, name in (("cleanlab", "cleanlab's"), ("nll", "plain cross-entropy's")):
        wall, cpu = (time_ratios(whole, side, figure) for figure in ("seconds", "cpu_seconds"))
        if wall:
            aim = ""
            if side == "cleanlab":
                met = "met" if np.median(wall) <= TIME_GOAL else "missed"
                aim = f" (aim: {TIME_GOAL} or less, **{met}**)"
            yield (
                f"Our time over {name}, median of {len(wall)} runs: {np.median(wall):.2f}{aim}; "
                f"by processor time {np.median(cpu):.2f} ({_by_set(whole, side)})."
            )


def _by_set(whole, side):
    """Median ratios of processor time, set by set."""
    parts = []
    for name in SETS:
        of_set = {setting: seeds for setting, seeds in whole.items() if setting[0] == name}
        if ratios := time_ratios(of_set, side, "cpu_seconds"):
            parts.append(f"{name} {np.median(ratios):.2f}")
    return ", ".join(parts)


def losses_section(counted):
    yield "\n## Where we lose"
    lost = []
    for setting, line in counted.items():
        for metric, (name, rivals) in JUDGED.items():
            if ahead := better(line, rivals, metric):
                theirs = ", ".join(f"{rival} {line[rival, metric]:.3f}" for rival in ahead)
                ours = f"{line['abstain', metric]:.3f}"
                lost.append(f"| {' '.join(map(str, setting))} | {name} | {ours} | {theirs} |")
    if not lost:
        yield "Nowhere, on what was run."
        return
    yield "| setting | figure | abstain | better |\n|---|---|---|---|"
    yield from lost


def devices(of_set, whole):
    """Where the sides ran, each by itself where that differs."""
    rows = [sides for setting in of_set for sides in whole[setting].values()]
    where = {side: sorted({sides[side]["device"] for sides in rows}) for side in SIDES}
    if len({tuple(found) for found in where.values()}) == 1:
        return ", ".join(where["abstain"])
    return "; ".join(f"{', '.join(found)} (*{side}*)" for side, found in where.items())


def set_section(name, of_set, whole):
    some = next(iter(whole[next(iter(of_set))].values()))["abstain"]
    recipe = some["recipe"]
    ended = [x["abstain"].get("ended", recipe["epochs"]) for s in of_set for x in whole[s].values()]
    drawn = ""
    if name in SAMPLES and some["samples"] < BUILTIN[name].train:
        drawn = f" drawn at random from {BUILTIN[name].train:,}"
    yield (
        f"\n## {name}\n{some['samples']:,} samples{drawn}, {some['classes']} classes, network "
        f"`{recipe['model']}`, {recipe['epochs']} epochs (*abstain* ended by itself after "
        f"{min(ended)} to {max(ended)}, median {np.median(ended):.0f}), batch {recipe['batch']}, "
        f"on {devices(of_set, whole)}. Best of a line in bold.\n"
    )
    for metric, metric_name in METRICS.items():
        yield f"| {metric_name} | wrong | seeds | " + " | ".join(RANKINGS) + " |"
        yield "|---" * (3 + len(RANKINGS)) + "|"
        for setting, line in of_set.items():
            shown = [f"{line[ranking, metric]:.3f}" for ranking in RANKINGS]
            cells = [f"**{x}**" if x == max(shown) else x for x in shown]
            yield f"| {_words(setting, whole)} | {line['truth']:.1%} | {line['seeds']} | " + (
                " | ".join(cells) + " |"
            )
        yield ""
    yield (
        "| | F1 of the flags: abstain | cleanlab | error of the rate: abstain | cleanlab, joint "
        "| cleanlab, count | seconds: abstain | cleanlab | nll | MiB gained: abstain | cleanlab "
        "| nll |\n" + "|---" * 12 + "|"
    )
    for setting, line in of_set.items():
        cells = [
            *(f"{line[name, 'f1']:.3f}" for name in ("abstain", "cleanlab")),
            *(f"{line[name, 'error']:.3f}" for name in ("abstain", "joint", "count")),
            *(f"{line[side, 'seconds']:.1f}" for side in SIDES),
            *(f"{line[side, 'gained_mib']:.0f}" for side in SIDES),
        ]
        cells = ["–" if cell == "nan" else cell for cell in cells]
        yield f"| {_words(setting, whole)} | {' | '.join(cells)} |"


def reviews_section(whole, fresh=()):
    """What a reviewer was told to expect of the worst labels, and what was there."""
    runs = {
        setting: [x["abstain"]["reviews"] for x in seeds.values() if "reviews" in x["abstain"]]
        for setting, seeds in whole.items()
        if is_decidable(seeds)
    }
    runs = {setting: reviews for setting, reviews in runs.items() if reviews}
    if not runs:
        return
    yield (
        "\n## What to expect of a review\nOf the worst labels so many are wrong, the report says, "
        "for any number that one has the time to look at. Ten budgets, up to as many labels as are "
        f"flagged: by how much that was off, as a share of the budget. Within {POINTS:.0%} of the "
        "truth: single runs; settings, averaged over seeds. Rules were mended with an eye on these "
        "figures.\n"
    )
    yield from _reviews_table(runs)
    unseen, seeds = defaultdict(list), defaultdict(set)
    for row in filter(can_be_known, fresh):
        unseen[row["data"], row["kind"], row["rate"]].append(row["reviews"])
        seeds[row["data"]].add(row["seed"])
    if unseen:
        alike = defaultdict(list)
        for name, drawn in seeds.items():
            alike[f"{min(drawn)} to {max(drawn)}"].append(name)
        named = "; ".join(f"{drawn} of {', '.join(names)}" for drawn, names in alike.items())
        yield (
            f"\nThe same for seeds by which no rule was mended ({named}; `results/{FRESH.name}`):\n"
        )
        yield from _reviews_table(unseen)
        yield from _by_setting(unseen)


def _reviews_table(runs):
    yield (
        "| | runs | half: mean | runs within | settings within | full: mean | runs within "
        "| settings within | all ten: furthest mean | runs within | settings within "
        "| intervals that cover |\n" + "|---" * 12 + "|"
    )
    for name in [name for name in SETS if any(s[0] == name for s in runs)] + ["all"]:
        of_set = [x for setting, x in runs.items() if name in (setting[0], "all")]
        errors = [[_errors(run) for run in x] for x in of_set]
        single, means = np.concatenate(errors), np.array([np.mean(x, 0) for x in errors])
        cells = [str(len(single))]
        for budgets in ([4], [9], range(10)):
            cells += [
                f"{max(single.mean(0)[budgets], key=abs):+.3f}",
                *(f"{np.mean(abs(x[:, budgets]) <= POINTS):.0%}" for x in (single, means)),
            ]
        covered = np.mean([budget["covered"] for x in of_set for run in x for budget in run])
        yield f"| {name} | {' | '.join(cells)} | {covered:.0%} |"


def _by_setting(runs):
    """Means of single settings: those of a set hide errors that cancel out."""
    yield (
        "\nAnd by setting, means over its runs in points; in brackets the standard error at the "
        "furthest of the ten budgets:\n\n| | runs | a tenth of the flagged | half | all | furthest "
        "|\n|---|---|---|---|---|---|"
    )
    for name, (kind, rate) in product(SETS, NOISE):
        if (name, kind, rate) not in runs:
            continue
        reviews = runs[name, kind, rate]
        errors = 100 * np.array([_errors(run) for run in reviews])
        means, furthest = errors.mean(0), int(abs(errors.mean(0)).argmax())
        spread = errors[:, furthest].std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else 0
        cells = [f"{means[budget]:+.1f}" for budget in (0, 4, 9, furthest)]
        yield f"| {name} {kind} {rate} | {len(errors)} | {' | '.join(cells)} ({spread:.1f}) |"


def _errors(reviews):
    return [budget["expected"] - budget["found"] for budget in reviews]


def _words(setting, whole):
    mark = "" if is_decidable(whole[setting]) else " †"
    return f"{setting[1]} {setting[2]}{mark}"


def epochs_section(rows, whole):
    """What other numbers of epochs would have given: the usual ones are not everyone's best."""
    tried = defaultdict(lambda: defaultdict(list))
    for row in rows:
        setting = (row["data"], row["kind"], row["rate"])
        if not row["usual"] and row["side"] != "nll" and row["seed"] in whole.get(setting, ()):
            tried[setting][row["side"], row["epochs"]].append(row)
    if not tried:
        return
    columns = sorted({column for found in tried.values() for column in found})
    names = [f"{side}, {epochs} epochs" for side, epochs in columns]
    table, won = [], {metric: [] for metric in METRICS}
    for setting in (s for s in whole if s in tried):
        seeds = {row["seed"] for found in tried[setting].values() for row in found}
        cells = [_best(whole[setting][seed][side] for seed in seeds) for side in SIDES[:2]]
        cells += [_best(tried[setting][column]) for column in columns]
        table.append(
            f"| {' '.join(map(str, setting))} | "
            + " | ".join(" / ".join(f"{x:.3f}" for x in c.values()) or "–" for c in cells)
            + " |"
        )
        if is_decidable(whole[setting]):
            theirs = [
                cells[1],
                *(c for c, x in zip(cells[2:], columns, strict=True) if x[0] == "cleanlab"),
            ]
            for metric, outcomes in won.items():
                best = max(round(c[metric], 3) for c in theirs if c)
                outcomes.append(round(cells[0][metric], 3) >= best)
    counts = ", ".join(f"{METRICS[m]} {sum(x)} of {len(x)}" for m, x in won.items())
    yield (
        "\n## Other numbers of epochs\nCross-entropy learns wrong labels by heart if it is "
        "trained for long, and cross-validation suffers from that. AUROC / average precision, for "
        "cleanlab the best of its three, over the seeds for which this was tried. With our usual "
        "epochs we are better than or equal to cleanlab at whichever of these numbers suits it "
        f"best, known only in hindsight, in: {counts}.\n"
    )
    yield f"| | abstain, as above | cleanlab, as above | {' | '.join(names)} |"
    yield "|---" * (3 + len(columns)) + "|"
    yield from table


def _best(rows):
    """The best ranking of a side by each metric, on average over runs; {} without any."""
    rankings = [row["rankings"].values() for row in rows]
    if not rankings:
        return {}
    return {m: float(np.mean([max(x[m] for x in one) for one in rankings])) for m in METRICS}


def missing_section(whole):
    classes = {name: 2 if name in ("breast cancer", "imdb") else 10 for name in SETS}
    wanted = {(name, *setting) for name in SETS for setting in settings(classes[name])}
    seeds = defaultdict(lambda: defaultdict(int))
    for setting in wanted:
        seeds[setting[0]][len(whole.get(setting, ()))] += 1
    unfinished = [
        f"- {name}: " + ", ".join(f"{n} settings with {k} of 3 seeds" for k, n in sorted(x.items()))
        for name, x in ((name, seeds[name]) for name in SETS)
        if set(x) != {3}
    ]
    return "\n## Not yet run\n" + ("\n".join(unfinished) or "Nothing: all is there.")


def versions_section(whole):
    rows = [row for seeds in whole.values() for x in seeds.values() for row in x.values()]
    said = sorted({f"{name} {v}" for row in rows for name, v in row["versions"].items()})
    where = sorted(
        {f"{row['device']} ({row['machine']}, {row['threads']} threads)" for row in rows}
    )
    trained, judged = defaultdict(set), defaultdict(set)
    for (name, *_), seeds in whole.items():
        for row in (sides["abstain"] for sides in seeds.values()):
            trained[name].add(row["commit"] or "unknown")
            judged[name].add(row.get("rejudged") or row["commit"] or "unknown")
    commits = "\n".join(
        f"- {name}: trained by {', '.join(sorted(trained[name]))}; judged by "
        f"{', '.join(sorted(judged[name]))}"
        for name in trained
    )
    return (
        f"\n## Versions\n{', '.join(said)}; on {'; '.join(where)}. The commits by which *abstain* "
        "trained, which the times are of, and by which it judged what these trainings saw:\n\n"
        f"{commits}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    kinds = list(dict(NOISE))
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--methods", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--device", choices=("auto", "cpu"), default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--epochs", type=int, help="instead of the usual ones; told apart on the page"
    )
    parser.add_argument("--samples", type=int, help="of each set, likewise")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument(
        "--alone", type=int, default=1, help="settings of each set to run alone before, to time"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no more after")
    parser.add_argument("--again", action="store_true", help="run also what is there")
    parser.add_argument("--cleanlab", type=Path, help="folder with the unpacked wheel")
    parser.add_argument("--prepare", type=Path, help="only write the sets into a folder")
    parser.add_argument("--prepared", type=Path, help="folder to read the sets from")
    parser.add_argument("--ledgers", type=Path, help="folder for what our trainings saw")
    parser.add_argument("--rejudge", action="store_true", help="only what is in --ledgers, anew")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--report", action="store_true", help="only make the page")
    options = parser.parse_args()
    if options.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if options.cleanlab:
        sys.path.append(str(options.cleanlab))
    if options.prepare:
        for name in options.data:
            prepare(name, options.prepare)
        return
    torch.set_num_threads(1)  # in this process, which trains nothing, so that it can fork
    if options.rejudge:
        rejudge(options)
    elif not options.report:
        run(options)
    text = page(read(options.results), read(FRESH))
    options.page.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
