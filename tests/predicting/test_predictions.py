"""The table of predictions is written whole, as text where it is text, or not at all."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from abstain.errors import AbstainError
from abstain.predicting.predict import predict_from
from abstain.predicting.predictions import check_output


@pytest.mark.parametrize("ending", [".csv", ".CSV", ".parquet"])
def test_what_is_written_can_be_read(table_run, files, tmp_path, ending):
    path = tmp_path / f"out{ending}"
    predictions = predict_from(table_run, files / "new.csv", coverage=0.5, compare=True)
    predictions.write(path)
    if ending == ".parquet":
        written = pyarrow.parquet.read_table(path)
        texts = {"id", "predicted_label", "given_label"}
        assert {f.name for f in written.schema if f.type == pa.string()} == texts
    else:
        as_text = pyarrow.csv.ConvertOptions(
            column_types={"id": pa.string(), "predicted_label": pa.string()},
            strings_can_be_null=True, quoted_strings_can_be_null=False,
        )  # fmt: skip
        written = pyarrow.csv.read_csv(path, convert_options=as_text)
    rows = written.to_pylist()
    assert [row["id"] for row in rows] == list(predictions.ids)
    assert [row["answered"] for row in rows] == predictions.answered.tolist()
    for row, predicted in zip(rows, predictions.predicted, strict=True):
        expected = ("7", "10")[predicted] if row["answered"] else None
        assert row["predicted_label"] == expected
    np.testing.assert_allclose([row["margin"] for row in rows], predictions.margin, rtol=1e-5)
    assert list(tmp_path.iterdir()) == [path]


def test_labels_stay_text_when_nothing_is_answered(digits_run, tmp_path):
    predictions = predict_from(digits_run, "digits", split="test", coverage=0)
    predictions.write(tmp_path / "out.parquet")
    written = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert written.schema.field("predicted_label").type == pa.string()
    assert written.column("predicted_label").null_count == 355


def test_a_write_that_fails_leaves_the_old_file(digits_run, tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def fail(_table, where):
        where.write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr(pyarrow.csv, "write_csv", fail)
    predictions = predict_from(digits_run, "digits", split="test")
    with pytest.raises(AbstainError, match=r"output must be a file that can be written.*no space"):
        predictions.write(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(digits_run, tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "out.csv")
    predict_from(digits_run, "digits", split="test").write(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 356


def test_places_that_cannot_be_written_are_refused_beforehand(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for path, message in (
        (tmp_path / "out.txt", "must end in .csv or .parquet"),
        (tmp_path / "no" / "out.csv", "must lie in a folder that exists"),
        (tmp_path / "folder.csv", "must be a file, got the folder"),
    ):
        with pytest.raises(AbstainError, match=f"output {message}"):
            check_output(path)
