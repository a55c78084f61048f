"""`abstain data`: the list of built-in sets, and fetching one."""

import json

import pytest
from typer.testing import CliRunner

from abstain.cli.data import EXAMPLES, app
from abstain.errors import AbstainError


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ABSTAIN_DATA", raising=False)


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_list_says_where_each_set_comes_from(tmp_path):
    rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)}
    assert rows["digits"]["available"]
    assert rows["digits"]["source"] == "package scikit-learn"
    assert not rows["mnist"]["available"]
    assert rows["mnist"]["source"] == "hub ylecun/mnist"
    assert rows["cifar10"]["train"] == 50_000
    (tmp_path / "sets" / "mnist").mkdir(parents=True)
    found = json.loads(run("list", "--json", "--data-dir", str(tmp_path / "sets")).stdout)
    rows = {row["name"]: row for row in found}
    assert rows["mnist"]["available"]
    assert rows["imdb"]["source"].startswith("not in")


def test_list_as_a_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = run("list")
    assert result.exit_code == 0
    assert "fashion-mnist" in result.stdout
    assert "…" not in result.stdout  # a place that is cut short cannot be copied
    rows = [line for line in result.stdout.splitlines() if "10,000" in line]
    assert len({line.index("10,000") for line in rows}) == 1  # numbers stand below each other


def test_help_shows_one_example_per_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = [line.strip() for line in run("--help").stdout.splitlines()]
    examples = [line.strip() for line in EXAMPLES.splitlines() if "abstain data" in line]
    assert len(examples) >= 3
    assert set(examples) <= set(shown)


def test_get_decodes_into_the_cache(tmp_path):
    result = run("get", "digits")
    assert "digits: train 1,442, test 355; 0.1 MiB decoded in" in result.stdout.replace("\n", " ")
    assert len(list((tmp_path / "cache").glob("digits-*"))) == 2
    about = json.loads(run("get", "digits", "--json").stdout)
    assert about["bytes"] == 1797 * 64


def test_get_of_an_unknown_name():
    with pytest.raises(AbstainError, match=r"got 'digit'; did you mean digits\?"):
        run("get", "digit")
