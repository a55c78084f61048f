import json
import shlex

import numpy as np
import pyarrow.parquet as pq
import pytest

from abstain.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{'a goal' if k % 2 else 'the bank'} {k},{'sport' if k % 2 else 'money'}"
        for k in range(30)
    ]
    (tmp_path / "news.csv").write_text("\n".join(["text,label", *rows]))
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as leaving:
        main([str(x) for x in arguments])
    return leaving.value.code


def test_features_are_written_in_the_order_of_the_source(here, capsys):
    assert run("embed", "news.csv", "--out", "out") == 0
    features = np.load(here / "out" / "features.npy")
    table = pq.read_table(here / "out" / "samples.parquet")
    assert features.shape == (30, 256)
    assert table.column("label").to_pylist()[:2] == ["money", "sport"]
    assert "30 made now" in capsys.readouterr().out
    assert run("embed", "news.csv", "--out", "again") == 0
    assert "all from the cache" in capsys.readouterr().out
    np.testing.assert_array_equal(features, np.load(here / "again" / "features.npy"))


def test_features_written_can_be_audited(here, capsys):
    run("embed", "news.csv", "--out", "out", "--json")
    about = json.loads(capsys.readouterr().out)
    assert about["backbone"] == "small:wordllama"
    code = run(
        *("audit", "news.csv", "--features", "out/features.npy", "--epochs", 4, "--out", "audit")
    )
    assert code == 0


def test_samples_without_labels_have_features_to_predict_by(here, capsys):
    run("embed", "news.csv", "--out", "out")
    run("audit", "news.csv", "--features", "out/features.npy", "--epochs", 4, "--out", "audit")
    new = [
        "text",
        *(line.split(",")[0] for line in (here / "news.csv").read_text().split("\n")[1:]),
    ]
    (here / "new.csv").write_text("\n".join(new))
    capsys.readouterr()
    assert run("embed", "new.csv", "--unlabelled") == 2
    assert "--backbone must be named for samples without labels" in capsys.readouterr().err
    words = ("--backbone", "small:wordllama", "--out", "new")
    assert run("embed", "new.csv", "--unlabelled", *words) == 0
    assert "Audit by them" not in capsys.readouterr().out
    assert pq.read_table(here / "new" / "samples.parquet").column_names == ["id"]
    features = [np.load(here / name / "features.npy") for name in ("out", "new")]
    np.testing.assert_array_equal(*features)
    assert run("predict", "audit", "new.csv", "--features", "new/features.npy") == 0


def test_the_command_that_comes_next_can_be_pasted(here, capsys):
    (here / "my news.csv").write_text((here / "news.csv").read_text().replace("label", "desk", 1))
    assert run("embed", "my news.csv", "--label", "desk", "--out", "out") == 0
    line = capsys.readouterr().out.splitlines()[-1]
    words = shlex.split(line.removeprefix("Audit by them: abstain "))
    assert words[:2] == ["audit", "my news.csv"]
    assert run(*words, "--epochs", 2, "--out", "audit") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["news.csv", "--backbone", "resnet"], "--backbone must be small:NAME, timm:NAME"),
        (["digits"], "--backbone must be named for digits"),
        (
            ["news.csv", "--backbone", "small:efficientnet-lite2"],
            "--backbone must be one for texts",
        ),
        (["news.csv", "--backbone", "hf:nowhere/at-all"], "--backbone must name a model that is"),
        (["news.csv", "--out", "."], "--out must be a new or empty folder"),
        (["news.csv", "--out", "news.csv/in"], "--out must be a folder that can be written"),
    ],
)
def test_what_cannot_be_embedded_is_one_line(capsys, monkeypatch, arguments, message):
    # The variable HF_HUB_OFFLINE is read once, and another test may have imported the library.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert run("embed", *arguments) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
