"""Empty inputs: blank images, texts without a character, rows without a value."""

import numpy as np
import torch

from abstain.checks.images import Measures
from abstain.checks.rules import Floats, Issues
from abstain.data import LabeledData
from abstain.data.inputs import BLOCK, blocks, take


def empty(data: LabeledData, measures: Measures | None = None) -> Issues:
    """Inputs that hold nothing; the score is the part of a row that has values, else 0 or 1.

    Args:
        data: Samples.
        measures: Of the images, where they are images.

    >>> texts = LabeledData(inputs=["fine", " "], given=torch.tensor([0, 1]), classes=("a", "b"),
    ...                     ids=("1", "2"), kind="text")
    >>> empty(texts).is_issue.tolist()
    [False, True]
    """
    score = _filled(data, measures)
    return Issues(score == 0, score)


def _filled(data: LabeledData, measures: Measures | None) -> Floats:
    if data.kind == "image":
        assert measures is not None
        return (measures.contrast > 0).astype(np.float32)
    if data.kind == "table":
        parts = [(~rows.isnan()).sum(dim=1) for rows in blocks(data.inputs)]
        texts = [torch.from_numpy(_filled(data.of_texts(name), None)) for name in data.texts]
        columns = len(torch.as_tensor(data.inputs[0])) + len(texts)
        return torch.div(sum(texts, start=torch.cat(parts)), columns).numpy()
    everything = range(len(data))
    parts_of_texts = (take(data.inputs, everything[k : k + BLOCK]) for k in everything[::BLOCK])
    return np.array([bool(str(x).strip()) for part in parts_of_texts for x in part], np.float32)
