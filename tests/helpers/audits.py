"""Small sources to audit, each learnt in a second or two; audits of them, and what these wrote."""

import csv
import random

import numpy as np
import torch
from PIL import Image

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.data import LabeledData

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\"'&\x00"


FLIPPED = Recipe(epochs=8, warm_up=1, flip=0.2)


def blobs(count=150, classes=3, columns=4, seed=0):
    """Points around one centre per class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    x = rng.normal(size=(classes, columns))[labels] * 4 + rng.normal(size=(count, columns))
    return x.astype(np.float32), labels


def text_rows(count=160, seed=0):
    """Sentences of good or bad words; one of them is hostile."""
    rng = random.Random(seed)
    words = {"good": "fine bright clever kind", "bad": "dull grim vile sour"}
    rows = []
    for k in range(count):
        label = ("good", "bad")[k % 2]
        text = " ".join([*rng.choices(words[label].split(), k=6), "a", "day", str(k)])
        rows.append((text, label))
    rows[0] = (f"{HOSTILE} {rows[0][0]}".replace("\x00", ""), rows[0][1])
    return rows


def write_texts(path, **settings):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["stars", "text", "place"])
        writer.writerows((label, text, "here") for text, label in text_rows(**settings))
    return path


def write_images(root, per_class=30, size=8):
    """Bright and dark images in folders; every fifth of the bright ones lies in the wrong one."""
    rng = np.random.default_rng(0)
    for k, name in enumerate(("dark", "light")):
        (root / name).mkdir(parents=True)
        for i in range(per_class):
            shade = 200 if (k == 1) != (i % 5 == 0) else 40
            pixels = np.clip(rng.normal(shade, 20, size=(size, size)), 0, 255).astype(np.uint8)
            pixels[: 3 * size // 8] = shade  # plain ground, as of drawings: learnt from scratch
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


def hostile_data(kind="text", count=60):
    """Data in which everything that can hold text holds markup."""
    rng = np.random.default_rng(0)
    given = torch.arange(count) % 2
    inputs = {
        "text": [f"{HOSTILE} {'fine' if k % 2 else 'dull'} {k}" for k in range(count)],
        "table": torch.from_numpy(rng.normal(size=(count, 3)).astype(np.float32)) + given[:, None],
        "image": (9 + given).to(torch.uint8)[:, None, None, None].expand(count, 1, 8, 8),
    }[kind]
    return LabeledData(
        inputs=inputs,
        given=given,
        classes=(f"a{HOSTILE}", f"b{HOSTILE}"),
        ids=[f"{k}{HOSTILE}" for k in range(count)],
        kind=kind,
        name=HOSTILE,
        columns=tuple(f"c{k}{HOSTILE}" for k in range(3)) if kind == "table" else (),
    )


def audited_blobs(place):
    """An audit of points, a fifth of them flipped, in a folder."""
    x, y = blobs(150)
    np.savez(place / "blobs.npz", x=x, y=y)
    return audit(place / "blobs.npz", Recipe(epochs=6, warm_up=1, flip=0.2), folder=place / "audit")


def saved(source, folder, recipe=FLIPPED, **options):
    audit(source, recipe, folder=folder, **options)
    return AuditFolder.open(folder)


def flagged_ids(found):
    issues = found.issues.to_pydict()
    return {id_ for id_, flag in zip(issues["id"], issues["is_label_issue"], strict=True) if flag}


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def truth_of(found):
    true = found.data.true.tolist()
    return {id_: found.data.classes[k] for id_, k in zip(found.data.ids, true, strict=True)}


def answer(path, truth, count=None):
    """Fill in the first answers of a table to check, as a person would."""
    rows = rows_of(path)
    for row in rows[:count]:
        row["checked_label"] = truth[row["id"]]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
