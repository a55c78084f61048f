"""Measure the gain of columns of text beside numbers, on tables with known wrong labels.

    python bench/mixed_tables.py --data-dir DATA --out results/mixed-tables.json

DATA holds `real/` (sets with real errors; `real/README.md` there names their sources). Each set is
made a table: its texts, one column or two where a sample is a pair (`A >> B`), and numbers: the 13
similarities that product_pairs has of the same pairs, or seven counts of characters that are the
same for every set. Each table is audited with defaults: its texts alone, its numbers alone, and
both, the features of texts scaled in three ways. At most `--most` samples of a set are taken, the
same ones each time.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pandas as pd
from sklearn.metrics import f1_score

from abstain import audit
from abstain.embed import joined
from bench.backbones import TEXTS, drawn, ranking

SHRINK = {"joined": joined.SHRINK, "joined, unscaled": 0.0, "joined, a text as a number": 0.5}
"""Power of their number by which features of a text are divided beside numbers."""


def table_of(data_dir, name, most):
    """A table with the label as given, its true labels, and its columns of each part."""
    rows = pd.read_parquet(data_dir / "real" / f"{name}.parquet")
    frame = rows.iloc[drawn(len(rows), most)].reset_index(drop=True)
    pairs = frame["text"].str.split(" >> ", n=1, expand=True)
    is_pair = pairs.shape[1] == 2 and pairs[1].notna().all()
    texts = pairs.set_axis(["first", "second"], axis=1) if is_pair else frame[["text"]]
    texts = texts.rename(columns={"text": "comment"})  # by its name alone it would be all there is
    numbers = counts(frame["text"])
    if name == "product_match":
        pairs = pd.read_parquet(data_dir / "real" / "product_pairs.parquet").set_index("id")
        numbers = pairs.loc[frame["id"]].reset_index().filter(regex=r"^f\d+$")
    table = pd.concat([texts, numbers, frame[["label"]].astype(str)], axis=1)
    parts = {"texts": [*texts], "numbers": [*numbers]}
    parts |= {way: [*texts, *numbers] for way in SHRINK}
    return table, frame["true"].astype(str), parts


def counts(texts):
    return pd.DataFrame(
        {
            "characters": texts.str.len(),
            "words": texts.str.split().str.len(),
            "capitals": texts.str.count("[A-Z]"),
            "digits": texts.str.count("[0-9]"),
            "exclamations": texts.str.count("!"),
            "questions": texts.str.count(r"\?"),
            "names": texts.str.count(r"@|http|<url>|<user>"),
        }
    )


def run(table, true, columns):
    """One audit and how right it is."""
    found = audit(table, features=columns)
    wrong = (table["label"] != true).to_numpy()
    return {
        "rate": round(found.noise_rate.value, 4),
        "f1": round(float(f1_score(wrong, found.verdict.is_label_issue)), 4),
        **ranking(found.verdict.evidence.log_odds, wrong),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--most", type=int, default=5_000)
    parser.add_argument("--only", help="sets whose name holds this")
    parser.add_argument("--out", type=Path, default=Path("results/mixed-tables.json"))
    options = parser.parse_args()
    found = {"most": options.most, "sets": {}}
    for name in TEXTS:
        if options.only and options.only not in name:
            continue
        table, true, parts = table_of(Path(options.data_dir), name, options.most)
        row = {"samples": len(table), "wrong": round(float((table["label"] != true).mean()), 4)}
        row["columns"] = {part: len(parts[part]) for part in ("texts", "numbers")}
        for part, columns in parts.items():
            joined.SHRINK = SHRINK.get(part, SHRINK["joined"])
            row[part] = run(table, true, columns)
        found["sets"][name] = row
        print(name, json.dumps(row), flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
