"""The work of `abstain embed`: a folder with the features of a data set."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from abstain.data import LabeledData, load
from abstain.data.features import are_numbers, name_of
from abstain.data.inputs import blocks
from abstain.embed.backbones.names import AUTO, NONE, backbone_named, check_name
from abstain.embed.choice import ChosenBackbone, choose
from abstain.embed.embedding import embed
from abstain.embed.store.pipeline import Cost
from abstain.embed.store.shards import Features
from abstain.errors import AbstainError
from abstain.support.files import in_the_way, publish, publish_text
from abstain.support.optional import require
from abstain.support.progress import with_progress


@with_progress
def write_features(
    source: object,
    backbone: str,
    folder: Path,
    *,
    labelled: bool = True,
    show: bool = False,
    **options: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Write features.npy, samples.parquet and features.json; what the last one says.

    Args:
        source: What `abstain.data.load` takes.
        backbone: A name, or `auto`.
        folder: New or empty.
        labelled: False for samples without labels, such as those to be predicted.
        show: Show progress: bars on a terminal, a line a minute in a log.
        **options: For `abstain.data.load`.
    """
    check_name(backbone)
    if backbone == NONE:
        raise AbstainError(
            "must name the network that makes the features, got none", argument="backbone"
        )
    if backbone == AUTO and not labelled:
        raise AbstainError(
            "must be named for samples without labels, by which auto compares, got auto",
            argument="backbone",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AbstainError(f"must be a new or empty folder, got {folder}", argument="out")
    if (wall := in_the_way(folder)) is not None:
        raise AbstainError(
            f"must be a folder that can be written, got {folder}: {wall} is not writable",
            argument="out",
        )
    if are_numbers(options.get("features")):
        raise AbstainError(
            "must be a column of images or texts, as features are what is made, got numbers: "
            f"{name_of(options['features'])}",
            argument="features",
        )
    data = load(source, own_size=True, labelled=labelled, **options)
    if data.kind == "table":
        raise AbstainError(
            f"must hold images or texts, got a table, {data.name}",
            argument="source",
            remedy="choose one column of texts with {features}" if data.texts else "",
            features=next(iter(data.texts), None),
        )
    choice = choose(data) if backbone == AUTO else ChosenBackbone(backbone, "named")
    if choice.name == NONE:
        raise AbstainError(f"must be named for {data.name}: {choice.reason}", argument="backbone")
    network = backbone_named(choice.name, data.kind).for_data(data)
    cost, began = Cost(), time.monotonic()
    features = embed(data, network, cost=cost)
    seconds = time.monotonic() - began
    facts = {
        "backbone": choice.name,
        "reason": choice.reason,
        "identity": network.identity,
        "samples": len(data),
        "skipped": list(data.skipped),
        "columns": features.columns,
        "made": cost.made,
        "limit": cost.limit,
        "seconds": round(seconds, 3),
    }
    _write(folder, data, features, facts)
    return facts


def _write(
    folder: Path, data: LabeledData, features: Features, facts: Mapping[str, object]
) -> None:
    pa, parquet = require("pyarrow", "embed"), require("pyarrow.parquet", "embed")
    table = pa.table({"id": pa.array(data.ids[:], pa.string())})
    if data.classes:
        table = table.append_column("label", [[data.classes[k] for k in data.given.tolist()]])
    try:
        publish(folder / "features.npy", lambda path: _save(features, path))
        publish(folder / "samples.parquet", lambda path: parquet.write_table(table, path))
        publish_text(folder / "features.json", json.dumps(facts, indent=2) + "\n")
    except OSError as error:
        raise AbstainError(
            f"must be a folder that can be written, got {folder}: {error}", argument="out"
        ) from error


def _save(features: Features, path: Path) -> None:
    """Save as `np.save` does, but block by block: they may not fit into memory."""
    shape = (features.samples, features.columns)
    with path.open("wb") as stream:
        facts = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, facts)
        for rows in blocks(features):
            stream.write(rows.numpy().data)
