"""One small run per kind of input, for the tests of predictions; nobody writes there."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from predict_sources import NET, table, trained, write_csv


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The tables that the tests read."""
    folder = tmp_path_factory.mktemp("files")
    write_csv(folder / "train.csv", table(400, seed=0))
    write_csv(folder / "new.csv", table(300, seed=1))
    write_csv(folder / "trusted.csv", table(500, seed=2))
    (folder / "net.py").write_text(NET)
    return folder


@pytest.fixture(scope="session")
def table_run(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "table"
    model = f"{files / 'net.py'}:Net"
    source = str(files / "train.csv")
    return trained(source, folder, label="kind", model=model, learning_rate=0.05)


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory):
    return trained("digits", tmp_path_factory.mktemp("runs") / "digits")


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    words = np.array(["good fine film", "dull poor film", "", "a good one", "so poor a film"])
    rows = np.arange(60) % len(words)
    label = np.where(rows % 2 == 0, "pos", "neg")
    path = tmp_path_factory.mktemp("texts") / "reviews.parquet"
    pyarrow.parquet.write_table(pa.table({"review": words[rows], "label": label}), path)
    return path


@pytest.fixture(scope="session")
def text_run(texts, tmp_path_factory):
    return trained(str(texts), tmp_path_factory.mktemp("runs") / "text")
