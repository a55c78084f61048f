"""Encoders of every kind: what `fit_encoder` and `load_encoder` refuse."""

import pytest
import torch

from abstain.data import LabeledData, fit_encoder, load_encoder
from abstain.errors import DataError


def table(inputs, columns=()):
    inputs = torch.as_tensor(inputs, dtype=torch.float32)
    return LabeledData(
        inputs=inputs,
        given=torch.zeros(len(inputs), dtype=torch.int64),
        classes=("a", "b"),
        ids=[str(i) for i in range(len(inputs))],
        kind="table",
        columns=columns,
    )


def texts(*inputs):
    return LabeledData(
        inputs=list(inputs),
        given=torch.zeros(len(inputs), dtype=torch.int64),
        classes=("a", "b"),
        ids=[str(i) for i in range(len(inputs))],
        kind="text",
    )


def test_settings_and_folders_that_cannot_be_used(tmp_path):
    with pytest.raises(DataError, match="length must be 1 or more"):
        fit_encoder(texts("a"), length=0)
    with pytest.raises(DataError, match=r"must hold a saved encoder \(encoder\.json\)"):
        load_encoder(tmp_path)
    (tmp_path / "encoder.json").write_text('{"kind": "sound"}')
    with pytest.raises(DataError, match="must say image, table or text, got 'sound'"):
        load_encoder(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", '{"kind": "image"}', '{"kind": "table"}'])
def test_a_damaged_encoder_is_refused(tmp_path, text):
    (tmp_path / "encoder.json").write_text(text)
    with pytest.raises(DataError, match=r"encoder\.json"):
        load_encoder(tmp_path)
