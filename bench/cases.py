"""Cases whose wrong labels are known, trained on and cross-validated: what a verdict is fitted to.

A *case* is a set, the features that a model sees, and the labels it is given: the real ones, whose
errors were made by people or rules, or the true ones with errors planted. Each case is trained on
once, as `abstain.audit` does, and cross-validated five-fold for out-of-sample probabilities. The
results for each sample are kept in `--ledgers`, a file per case. A case that is there is not made
again, so the work can be stopped, and done in pieces.

    python bench/cases.py --data-dir DATA --ledgers FOLDER --jobs 2

DATA holds `real/` (sets with real errors; `real/README.md` there names their sources) and
`cifar10/`. Fashion-MNIST is the Debian package dataset-fashion-mnist. Texts become the mean word
vectors of the package wordllama, whose weights lie in `--wordllama` (default: where it is
installed). At most 5,000 samples of a set are drawn, once: many sets show more than large ones.
"""

import argparse
import importlib.util
import os
import time
import traceback
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LEDGERS = ROOT / "ledgers"
SAMPLES, FOLDS, EPOCHS = 5_000, 5, 15
TEXTS = (
    *("weak_agnews", "weak_imdb", "weak_trec", "noisyag", "davidson_hate", "convabuse"),
    *("md_offensive", "climate_fever", "politeness", "product_match"),
)
TABLES = ("product_pairs", "lidc_nodules", "defects_lucene", "defects_activemq", "mammography")
PHOTOS = ("cifar10_people.label1", "cifar10_people.label2", "cifar10_people.label3")
PLAIN = ("digits", "breast_cancer", "wine", "mnist_5k")
"""Sets without known errors of their own, on which a simple model is good."""
NARROW = ("product_pairs", "lidc_nodules", "mammography", "wine")
"""Tables of fewer than 16 columns."""
IMAGES = ("mnist_5k", "fashion_mnist", "cifar10_people.label1")
PLANTED = ("clean 0", "symmetric 0.1", "symmetric 0.3", "pairflip 0.3", "instance 0.3")
"""On the true labels of a set. Of two classes, pairflip is symmetric noise, drawn once more."""
SOURCES = {
    "agnews": ("weak_agnews", "noisyag"),  # the same texts
    "product": ("product_match", "product_pairs"),
    "defects": ("defects_lucene", "defects_activemq"),
    "cifar10_people": PHOTOS,
    "mnist": ("digits", "mnist_5k"),
}
"""Sets of one source leave together when a source is left out."""


def source_of(name):
    """The source that a set is of: its own name, unless it shares inputs or annotators.

    >>> source_of("noisyag"), source_of("wine")
    ('agnews', 'wine')
    """
    return next((source for source, names in SOURCES.items() if name in names), name)


@dataclass(frozen=True)
class Case:
    """A set, the features that a model sees of it, and the noise in its labels."""

    name: str
    features: str
    """`all` columns, cut to `64` or `16`, `tfidf` of texts, or the `network` learns its own."""
    noise: str
    """`real`, or one of `PLANTED`."""

    @property
    def file(self):
        return f"{self.name}__{self.features}__{self.noise.replace(' ', '-')}.npz"


def cases():
    """All of them, the real errors first."""
    real, planted = [], []
    for name in (*TEXTS, *TABLES, *PHOTOS):
        features = ["all"] if name in NARROW else ["all", "64", "16"]
        features += ["tfidf"] if name in TEXTS else ["network"] if name in PHOTOS else []
        real += [Case(name, kind, "real") for kind in features]
    for name in (*TEXTS, *TABLES, PHOTOS[0], *PLAIN):
        for features in ["all"] if name in NARROW else ["all", "16"]:
            planted += [Case(name, features, noise) for noise in PLANTED]
    planted += [Case(name, "network", noise) for name in IMAGES for noise in PLANTED]
    return real + planted


# ── Inputs and labels ─────────────────────────────────────────────────────────────────────────────


def read_set(name, data_dir):
    """Inputs (texts, or an array), labels as given and true labels, as class numbers."""
    if name in PLAIN or name == "fashion_mnist":
        inputs, true = _read_plain(name)
        rows = _drawn(len(true))
        return inputs[rows], true[rows], true[rows]
    import pyarrow.parquet as pq

    stem, _, column = name.partition(".")
    table = pq.read_table(Path(data_dir) / "real" / f"{stem}.parquet")
    table = table.take(_drawn(table.num_rows))
    given, true = (table.column(x).to_pylist() for x in (column or "label", "true"))
    classes = {x: k for k, x in enumerate(sorted({*given, *true}))}
    labels = (np.array([classes[x] for x in column]) for column in (given, true))
    if "text" in table.column_names:
        return np.array(table.column("text").to_pylist(), dtype=object), *labels
    columns = [x for x in table.column_names if x[0] == "f" and x[1:].isdigit()]
    numbers = np.stack([table.column(x).to_numpy() for x in columns], 1).astype(np.float32)
    return np.nan_to_num(numbers), *labels


def read_photos(name, data_dir):
    """The images that a network learns from, (N, channels, height, width), as bytes."""
    if name in PLAIN or name == "fashion_mnist":
        inputs, true = _read_plain(name)
        return inputs[_drawn(len(true))].reshape(-1, 1, 28, 28)
    import pyarrow.parquet as pq

    from abstain.data import load

    table = pq.read_table(Path(data_dir) / "real" / "cifar10_people.parquet", columns=["id"])
    rows = table.take(_drawn(table.num_rows)).column("id").to_numpy().astype(int)
    photos = load("cifar10", data_dir=data_dir).inputs[rows]
    return np.asarray(photos)


def _drawn(samples):
    return np.sort(np.random.default_rng(0).permutation(samples)[:SAMPLES])


def _read_plain(name):
    from sklearn import datasets

    if name in ("mnist_5k", "fashion_mnist"):
        from abstain.data import load

        data = load(name.replace("_", "-"))
        return np.asarray(data.inputs).reshape(len(data), -1), data.given.numpy()
    read = {"digits": "load_digits", "breast_cancer": "load_breast_cancer", "wine": "load_wine"}
    inputs, true = getattr(datasets, read[name])(return_X_y=True)
    return inputs.astype(np.float32), true


def features_of(name, inputs, kind, wordllama):
    """Compute the features that a model gets: standardised numbers."""
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import StandardScaler

    if kind == "tfidf":
        words = TfidfVectorizer(min_df=3, max_features=20_000, sublinear_tf=True)
        counts = words.fit_transform(inputs)
        columns = min(256, counts.shape[1] - 1)
        numbers = TruncatedSVD(columns, random_state=0).fit_transform(counts)
    else:
        numbers = mean_vectors(inputs, wordllama) if name in TEXTS else inputs
        numbers = StandardScaler().fit_transform(numbers.astype(np.float64))
        if kind != "all":
            numbers = PCA(int(kind), random_state=0).fit_transform(numbers)
    return StandardScaler().fit_transform(numbers).astype(np.float32)


def mean_vectors(texts, wordllama):
    """The mean of the vectors of a text's tokens."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = Path(wordllama)
    tokenizer = Tokenizer.from_file(str(next(folder.glob("tokenizers/*.json"))))
    (vectors,) = load_file(next(folder.glob("weights/*.safetensors"))).values()
    vectors = vectors.astype(np.float32)
    ids = [x.ids for x in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    return np.stack([vectors[x].mean(0) if x else np.zeros(vectors.shape[1]) for x in ids])


def labels_of(case, given, true, features):
    """The labels that a model is given."""
    from abstain import noise

    if case.noise == "real":
        return given
    kind, rate = case.noise.split()
    classes = int(max(given.max(), true.max())) + 1
    if kind == "clean":
        return true
    seed = zlib.crc32(f"{case.name} {case.noise}".encode())
    return noise.plant(
        true, np.arange(len(true)), kind, float(rate), seed, num_classes=classes, features=features
    ).given


# ── Training and cross-validation ─────────────────────────────────────────────────────────────────


def ledger_of(data, recipe):
    """The results of one training, as an audit makes it, for each sample."""
    import torch

    from abstain import train

    began = time.perf_counter()
    trained = train(data, recipe)
    ledger, held_out = trained.ledger.cpu(), trained.held_out
    kept = {
        "evidence": ledger.evidence.numpy().astype(np.float16),
        "margin": ledger.logit_margin.numpy().astype(np.float16),
        "belief": ledger.belief.numpy().astype(np.float16),
        "rival": torch.stack([x.rival for x in ledger.snapshots[-1:]])[0].numpy().astype(np.int16),
        "seconds": time.perf_counter() - began,
        "accuracy": held_out.accuracy if held_out else np.nan,
        "held_out": held_out.rows if held_out else np.arange(0),
        "epochs": trained.epoch,
    }
    for x in ledger.snapshots:
        odds = np.log((x.belief.float() + 0.01) / (x.rival_belief.float() + 0.01))
        kept[f"epoch{x.epoch}"] = odds.numpy().astype(np.float16)
    return kept


def cross_validated(given, fit):
    """Out-of-sample probabilities (N, m), and the seconds they took.

    Args:
        given: Labels.
        fit: Takes rows to train on and rows to predict, returns probabilities of the latter.
    """
    from sklearn.model_selection import StratifiedKFold

    began = time.perf_counter()
    classes = int(given.max()) + 1
    probabilities = np.zeros((len(given), classes), np.float32)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for rest, fold in folds.split(given, given):
        probabilities[fold] = fit(rest, fold)
    return {"probabilities": probabilities, "cv_seconds": time.perf_counter() - began}


def by_regression(features, given):
    from sklearn.linear_model import LogisticRegression

    def fit(rest, fold):
        model = LogisticRegression(max_iter=400).fit(features[rest], given[rest])
        found = np.zeros((len(fold), int(given.max()) + 1))
        found[:, model.classes_] = model.predict_proba(features[fold])
        return found

    return fit


def by_network(photos, given, recipe):
    import torch

    from abstain import belief, train
    from abstain.data import load

    def fit(rest, fold):
        trained = train(load((photos[rest], given[rest])), recipe)
        device = next(trained.model.parameters()).device
        inputs = trained.encoder.encode(load((photos[fold], given[fold])))
        found = []
        with torch.inference_mode():
            for begin in range(0, len(fold), 512):
                batch = torch.as_tensor(inputs[begin : begin + 512]).to(device)
                found.append(belief(trained.model(trained.encoder.to_model(batch)).float()).cpu())
        return torch.cat(found).numpy()

    return fit


def make(case, options):
    """Train on a case and keep the results."""
    target = options.ledgers / case.file
    if target.exists():
        return
    import torch

    torch.set_num_threads(1)
    from abstain import Recipe
    from abstain.data import load

    inputs, given, true = read_set(case.name, options.data_dir)
    recipe = Recipe.of("auto").plan().until_settled()
    if case.features == "network":
        photos = read_photos(case.name, options.data_dir)
        given = labels_of(case, given, true, photos.reshape(len(photos), -1).astype(np.float32))
        kept = ledger_of(
            load((photos, given)), Recipe.of("auto", epochs=EPOCHS).plan().until_settled()
        )
        kept |= cross_validated(given, by_network(photos, given, Recipe.of("nll", epochs=EPOCHS)))
    else:
        features = features_of(case.name, inputs, case.features, options.wordllama)
        given = labels_of(case, given, true, features)
        kept = ledger_of((features, given), recipe)
        kept |= cross_validated(given, by_regression(features, given))
    kept["probabilities"] = kept["probabilities"].astype(np.float16)
    kept |= {"given": given.astype(np.int16), "true": true.astype(np.int16)}
    part = target.with_suffix(f".part{os.getpid()}")
    with part.open("wb") as file:
        np.savez_compressed(file, **kept)
    part.replace(target)


def _attempt(case, options):
    """None, or what went wrong."""
    try:
        make(case, options)
    except Exception:
        return traceback.format_exc()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--ledgers", type=Path, default=LEDGERS)
    parser.add_argument("--wordllama", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", help="cases whose file name holds this")
    parser.add_argument("--skip", help="and not this")
    options = parser.parse_args()
    if options.wordllama is None and (spec := importlib.util.find_spec("wordllama")):
        options.wordllama = Path(spec.origin).parent
    options.ledgers.mkdir(parents=True, exist_ok=True)
    todo = [x for x in cases() if not options.only or options.only in x.file]
    todo = [x for x in todo if not options.skip or options.skip not in x.file]
    todo = [x for x in todo if not (options.ledgers / x.file).exists()]
    print(f"{len(todo)} cases to make, in {options.ledgers}", flush=True)
    began, failed = time.monotonic(), 0
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        under_way = {pool.submit(_attempt, case, options): case for case in todo}
        for done, future in enumerate(as_completed(under_way), 1):
            error = future.result()
            failed += error is not None
            seconds = time.monotonic() - began
            print(
                f"{done}/{len(todo)} {seconds:.0f} s {under_way[future].file} {error or ''}",
                flush=True,
            )
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
