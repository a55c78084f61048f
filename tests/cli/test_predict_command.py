"""`abstain predict`: what it prints and writes, and when it abstains."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from PIL import Image

from abstain.cli import main
from abstain.cli.predict import EXAMPLES
from abstain.predicting.predict import predict_from
from abstain.training.plan import Plan
from abstain.training.train import train


def write(path, count, seed, label="kind", spread=1.0, noise=0.2):
    rng = np.random.default_rng(seed)
    numbers = spread * rng.normal(size=(2, count))
    kind = np.where(numbers[0] + noise * rng.normal(size=count) > 0, "yes", "no")
    pyarrow.csv.write_csv(pa.table({"x": numbers[0], "y": numbers[1], label: kind}), path)
    return path


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A run of a small table, and files to use it on."""
    folder = tmp_path_factory.mktemp("home")
    write(folder / "train.csv", 400, seed=0)
    write(folder / "new.csv", 200, seed=1)
    write(folder / "trusted.csv", 400, seed=2)
    write(folder / "hard.csv", 200, seed=3, spread=1e-3)
    write(folder / "random.csv", 400, seed=4, noise=1e6)
    write(folder / "renamed.csv", 200, seed=1, label="answer")
    recipe = Plan(epochs=3, warm_up=1, precision="fp32", batch=16, learning_rate=0.01)
    train(str(folder / "train.csv"), recipe, folder=folder / "run", label="kind")
    return folder


@pytest.fixture
def abstain(home, tmp_path, monkeypatch, capsys):
    """Runs the command in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("ABSTAIN_DATA", raising=False)
    places = {path.name: str(path) for path in home.iterdir()}

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["predict", *(places.get(word, word) for word in arguments)])
        return stop.value.code, *capsys.readouterr()

    return run


def test_writes_a_row_per_sample_and_says_so(abstain, tmp_path):
    code, out, err = abstain("run", "new.csv")
    assert code == 0
    assert err == ""
    assert out.startswith("200 of 200 samples answered (100.0%); the model expects")
    assert out.endswith("written: predictions.csv\n")
    written = pyarrow.csv.read_csv(tmp_path / "predictions.csv")
    assert written.num_rows == 200
    assert written.column_names == [
        "id", "predicted_label", "confidence", "margin", "abstention", "answered",
    ]  # fmt: skip
    assert set(written.column("predicted_label").to_pylist()) == {"yes", "no"}


def test_a_file_that_nobody_named_is_not_replaced(abstain, tmp_path):
    (tmp_path / "predictions.csv").write_text("precious")
    code, out, err = abstain("run", "new.csv")
    assert code == 2
    assert out == ""
    assert "predictions.csv exists already; name another file by --output" in err
    assert (tmp_path / "predictions.csv").read_text() == "precious"
    assert abstain("run", "new.csv", "--force")[0] == 0
    assert (tmp_path / "predictions.csv").read_text() != "precious"


def test_a_file_that_was_named_is_replaced(abstain, tmp_path):
    (tmp_path / "out.parquet").write_text("old")
    assert abstain("run", "new.csv", "-o", "out.parquet")[0] == 0
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").num_rows == 200


@pytest.mark.parametrize("others", [["new.csv"], ["trusted.csv", "--calibrate", "new.csv"]])
def test_a_source_is_never_replaced(abstain, home, others):
    before = (home / "new.csv").read_bytes()
    code, _, err = abstain("run", *others, "--max-risk", "0.1", "-o", "new.csv", "--force")
    assert code == 2
    assert "output must not be" in err
    assert (home / "new.csv").read_bytes() == before


def test_json_for_machines(abstain):
    code, out, err = abstain("run", "new.csv", "--coverage", "0.25", "--compare", "--json")
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert summary["samples"] == 200
    assert summary["answered"] == 50
    assert summary["coverage"] == 0.25
    assert summary["score"] == "softmax"
    assert summary["agreement"] > 0.9
    assert 0 <= summary["aurc"] < 0.2
    assert 0 < summary["expected_risk"] < 0.5
    assert summary["calibration"] is None
    assert summary["file"] == "predictions.csv"


def test_the_models_own_opinion_is_called_that(abstain):
    code, out, err = abstain("run", "new.csv", "--max-risk", "0.2")
    assert code == 0
    assert err.count("\n") == 1
    assert "the model's own estimate" in err
    assert "--calibrate SOURCE" in err
    assert "at most" not in out


def test_trusted_labels_make_it_a_bound(abstain):
    arguments = ("run", "new.csv", "--max-risk", "0.05", "--calibrate", "trusted.csv")
    code, out, err = abstain(*arguments)
    assert (code, err) == (0, "")
    assert "of the answers are wrong, with 95% confidence" in out
    summary = json.loads(abstain(*arguments, "--json", "--force", "--compare")[1])
    assert 0 < summary["answered"] < 200
    held = summary["calibration"]
    assert held["samples"] == 400
    assert held["wrong"] / held["answered"] < held["risk_bound"] <= 0.05
    assert summary["agreement"] > 0.9
    stricter = json.loads(abstain(*arguments, "--json", "--force", "--confidence", "0.999")[1])
    assert stricter["answered"] <= summary["answered"]
    assert stricter["calibration"] != held


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (["hard.csv", "--max-risk", "0.01"], "the model expects more than 0.01"),
        (
            ["new.csv", "--max-risk", "0.001", "--calibrate", "trusted.csv"],
            "on 400 trusted samples; that takes 5,558 trusted labels or more",
        ),
        (
            ["new.csv", "--max-risk", "0.1", "--calibrate", "random.csv"],
            "with 95% confidence on 400 trusted samples; too many",
        ),
        (
            ["hard.csv", "--max-risk", "0.05", "--calibrate", "trusted.csv"],
            "no sample is as easy as the trusted ones",
        ),
    ],
)
def test_nothing_to_answer_is_a_warning_not_an_error(abstain, tmp_path, arguments, warning):
    code, out, err = abstain("run", *arguments)
    assert code == 0
    assert out.startswith("0 of 200 samples answered (0.0%)\n")
    last = err.splitlines()[-1]
    assert last.startswith("warning: nothing answered: ")
    assert warning in last
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 201


def test_compare_uses_the_label_column_of_the_training_or_the_one_named(abstain):
    _, without, _ = abstain("run", "new.csv", "-o", "a.csv")
    assert "agreement" not in without
    _, known, _ = abstain("run", "new.csv", "-o", "a.csv", "--compare")
    assert "agreement with the labels of the source: 9" in known
    assert "AURC" in known
    assert abstain("run", "renamed.csv", "-o", "a.csv", "--label", "answer")[1] == known
    named = abstain("run", "renamed.csv", "-o", "a.csv", "--label", "answer", "--no-compare")
    assert named[1] == without
    code, _, err = abstain("run", "renamed.csv", "-o", "a.csv", "--compare")
    assert code == 2
    assert "label must name a column" in err
    assert "'kind'" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "new.csv"], "run must be the folder of a run, got nowhere"),
        (["run", "nothing.csv"], "source must be a file or folder that exists, got nothing.csv"),
        (["run", "digits"], "digits must hold what the model was trained on (table), got image"),
        (["run", "new.csv", "--coverage", "1.5"], "coverage must lie in [0, 1], got 1.5"),
        (["run", "new.csv", "--score", "luck"], "score must be one of"),
        (["run", "new.csv", "--calibrate", "trusted.csv"], "calibrate needs max_risk"),
        (
            ["run", "new.csv", "--max-risk", "0.1", "--confidence", "0.95"],
            "whose labels you trust, got 0.95 alone; name one by --calibrate",
        ),
        (
            ["run", "new.csv", "--max-risk", "0.1", "--calibrate", "train.csv"],
            "calibrate must be samples that the model has not seen",
        ),
        (["run", "new.csv", "-o", "no/such/a.csv"], "output must lie in a folder that exists"),
        (["run", "new.csv", "-o", "a.xlsx"], "output must end in .csv or .parquet, got a.xlsx"),
    ],
)
def test_errors_take_one_line_and_exit_code_2(abstain, tmp_path, arguments, message):
    code, out, err = abstain(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("abstain: ")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_exits_with_130_and_leaves_nothing(abstain, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("abstain.data.cache.os.fsync", interrupt)  # while the table is written
    code, _, err = abstain("run", "new.csv")
    assert code == 130
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_help_shows_one_example_per_line(abstain):
    code, out, _ = abstain("--help")
    shown = [line.strip() for line in out.splitlines()]
    examples = [line.strip() for line in EXAMPLES.splitlines() if "abstain predict" in line]
    assert code == 0
    assert len(examples) >= 4
    assert set(examples) <= set(shown)


def test_a_model_of_embeddings_predicts_by_embeddings(abstain, tmp_path):
    for split, seed in (("old", 0), ("new", 1)):
        rng = np.random.default_rng(seed)
        for k in range(40):
            place = tmp_path / split / ("cat", "dog")[k // 20]
            place.mkdir(parents=True, exist_ok=True)
            size = (4 + k % 2, 4)  # the images themselves could not be trained on
            Image.fromarray(np.zeros(size, dtype=np.uint8)).save(place / f"{k:02}.png")
        rows = rng.normal(size=(40, 3)) + 6 * (np.arange(40) // 20)[:, None]
        np.save(tmp_path / f"{split}.npy", rows.astype(np.float32))
    train("old", Plan(epochs=20, batch=8), folder="learnt", features="old.npy")
    code, _, err = abstain("learnt", "new")
    assert code == 2
    assert err.startswith("abstain: features must name an .npy with a row for each sample of new")
    lines = [f"photo {k} of a {('cat', 'dog')[k % 2]}" for k in range(40)]
    (tmp_path / "captions.csv").write_text("\n".join(["text", *lines]) + "\n")
    code, _, err = abstain("learnt", "captions.csv")
    assert code == 2
    assert "features must name an .npy with a row for each sample of captions.csv" in err
    in_memory = np.tile(np.load(tmp_path / "new.npy"), (20, 1))  # no name of a file, if a long one
    assert len(predict_from("learnt", in_memory)) == 800
    code, _, err = abstain("learnt", "new.csv")  # three columns, too, one of which holds texts
    assert code == 2
    assert re.search(r"column 'kind'.* must hold numbers.* as in the training data, got", err)
    code, out, _ = abstain("learnt", "new", "--features", "new.npy", "--compare", "--json")
    assert code == 0
    assert json.loads(out)["agreement"] > 0.9
    wrong = {
        ("--features", "x"): "--features must name an .npy, got x",
        ("--features", "old.npy", "--calibrate", "old", "--max-risk", "0.1"): (
            "calibrate must be left out where features are old.npy"
        ),
    }
    for arguments, message in wrong.items():
        code, _, err = abstain("learnt", "new", *arguments, "--output", "other.csv")
        assert code == 2
        assert message in err
