"""The table encoder, and the spread of its columns (`spread.py`)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_wine

from abstain.data import LabeledData, fit_encoder, load, load_encoder
from abstain.data.encoders import spread
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


def test_table_is_standardised_as_numpy_does(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal([0, 1e4, -3], [1, 2, 1e-3], (10_000, 3))
    encoder = fit_encoder(table(values, ("a", "b", "c")))
    encoded = encoder.encode(table(values, ("a", "b", "c")))
    single = values.astype(np.float32).astype(np.float64)
    expected = (single - single.mean(0)) / single.std(0)
    assert np.abs(encoded.numpy() - expected).max() < 2e-3
    encoder.save(tmp_path)
    assert torch.equal(load_encoder(tmp_path).encode(table(values)), encoded)


@pytest.mark.parametrize("slip", [1e30, -1e30, 3e38, 1e6])
@pytest.mark.parametrize("lazy", [False, True])
def test_one_absurd_value_does_not_decide_its_column(tmp_path, slip, lazy):
    """All other values were made alike by it, which a model cannot tell from a constant."""
    values = np.random.default_rng(0).normal([5, -3], [2, 0.1], (300, 2))
    plain = fit_encoder(table(values, ("a", "b")))
    expected = plain.encode(table(values))
    values[7, 0] = slip
    values[[3, 9], 1] = -slip
    data = table(values, ("a", "b"))
    if lazy:
        data = replace(data, inputs=list(data.inputs))
    encoder = fit_encoder(data)
    others = [k for k in range(300) if k not in (3, 7, 9)]
    encoded = torch.stack([*encoder.encode(data)])
    assert torch.allclose(encoded[others], expected[others], atol=0.01)
    assert encoded[7, 0] == np.sign(slip) * 10
    assert encoded[[3, 9], 1].tolist() == [-np.sign(slip) * 10] * 2
    named = [
        f"a ({np.float32(slip):.7g} in row 7)",
        f"b ({-np.float32(slip):.7g} in row 3 and 1 more)",
    ]
    assert encoder.too_far(data) == named
    # And so in new data, where every column has an end.
    encoder.save(tmp_path)
    again = load_encoder(tmp_path)
    for known in (plain, encoder, again):
        assert known.encode(table([[slip, 0.0]], ("a", "b")))[0, 0] == np.sign(slip) * 10
        assert known.too_far(table([[5.0, -3.0]], ("a", "b"))) == []


def test_a_slip_is_named_beside_a_gap():
    values = np.random.default_rng(0).normal(5, 2, (300, 2))
    values[3, 0], values[7, 0] = np.nan, 1e30
    data = table(values, ("a", "b"))
    assert fit_encoder(data).too_far(data) == ["a (1e+30 in row 7)"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: load("digits").inputs.flatten(1).numpy(),
        lambda rng: load_breast_cancer().data,
        lambda rng: load_wine().data,
        lambda rng: rng.lognormal(0, 3, (2000, 9)),
        lambda rng: rng.standard_cauchy((2000, 9)),
        lambda rng: rng.random((2000, 9)) < 0.001,
        # As pixels at the edge: nothing, once a trace, once all.
        lambda rng: np.eye(2000, 2) @ [[1], [255]],
    ],
)
def test_what_is_not_absurd_is_standardised_to_the_bit(draw):
    data = table(draw(np.random.default_rng(0)))
    values = data.inputs.double()
    std = values.std(0, correction=0)
    std[std <= 1e-7 * values.mean(0).abs()] = 1
    encoder = fit_encoder(data)
    assert torch.allclose(encoder.std, std.float())
    expected = (data.inputs - encoder.mean) / encoder.std
    assert torch.equal(encoder.encode(data), expected)
    assert encoder.too_far(data) == []


@pytest.mark.parametrize("constant", [0.0, 3.3, 1e6, -1e-6])
def test_constant_column_becomes_zero_and_stays_tame(constant):
    encoder = fit_encoder(table([[constant, 1.0], [constant, 2.0], [constant, 3.0]]))
    assert encoder.encode(torch.tensor([[constant, 2.0]])).abs().max() < 1e-5
    # No weight was learnt for what it might be otherwise.
    new = table([[constant + 1, 2.0], [constant - 1e9, 2.0]])
    assert encoder.encode(new).abs().max() == 0
    assert encoder.too_far(new) == []


def test_a_column_that_varies_by_less_than_a_float_can_tell_is_constant():
    """Seconds since 1970 came in steps of 128, as they were rounded."""
    seconds = 1_700_000_000 + np.arange(120)
    encoder = fit_encoder(data := table(np.stack([seconds, np.arange(120)], axis=1)))
    assert encoder.encode(data)[:, 0].abs().max() == 0


def test_a_column_without_a_value_is_not_asked_for_one(tmp_path):
    nan = float("nan")
    encoder = fit_encoder(data := table([[nan, 1.0, nan], [nan, 2.0, 3.0]], ("a", "b", "c")))
    assert (encoder.columns, encoder.input_shape) == (("b", "c"), (3,))
    assert encoder.encode(data).tolist() == [[-1, 0, 1], [1, 0, 0]]
    new = table([[1e3, 1.0, 3.0]], ("a", "b", "c"))
    assert encoder.encode(new).tolist() == [[-1, 0, 0]]
    assert encoder.encode(table([[1.0, 3.0]], ("b", "c"))).tolist() == [[-1, 0, 0]]
    with pytest.raises(DataError, match="feature columns of data must hold values, got none in a"):
        fit_encoder(table([[nan], [nan]], ("a",)))


def test_new_columns_are_matched_by_name():
    encoder = fit_encoder(table([[0.0, 10.0], [2.0, 30.0]], ("height", "weight")))
    new = table([[10.0, 5.0, 0.0]], ("weight", "extra", "height"))
    assert encoder.encode(new).tolist() == [[-1, -1]]
    with pytest.raises(DataError, match=r"none called height; did you mean heigth\?"):
        encoder.encode(table([[1.0, 2.0]], ("heigth", "weight")))
    with pytest.raises(DataError, match=r"must have 2 columns .*got 3"):
        encoder.encode(torch.zeros(1, 3))
    with pytest.raises(DataError, match="NaN or infinity in column 'weight', row 0"):
        encoder.encode(table([[0.0, torch.nan]], ("height", "weight")))


@pytest.mark.parametrize("at_once", [1, 40, 1 << 30])
def test_mean_and_spread_do_not_depend_on_how_many_rows_are_taken_at_once(monkeypatch, at_once):
    monkeypatch.setattr(spread, "_AT_ONCE", at_once)
    rows = np.random.default_rng(0).normal(5, 3, (101, 4)).astype(np.float32)
    rows[7, 2], rows[8, 3] = np.nan, 1e30
    found = spread.spread_of(torch.from_numpy(rows))
    rows[8, 3] = np.nan  # as far as mean and spread go
    np.testing.assert_allclose(found.mean, np.nanmean(rows.astype(float), 0), rtol=1e-6)
    np.testing.assert_allclose(found.std, np.nanstd(rows.astype(float), 0), rtol=1e-6)
    assert found.missing.tolist() == [0, 0, 1, 0]
