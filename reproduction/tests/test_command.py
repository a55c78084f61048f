"""Tests of command.py, figures.py and display.py: `python -m reproduction`."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from paper_runs import hand_made
from typer.testing import CliRunner

from abstain.cli import main
from abstain.errors import AbstainError
from reproduction import recipes
from reproduction.command import app
from reproduction.parquet import write_results
from reproduction.targets import TARGETS, Scale

# The one run of a small figure.
STAGES = TARGETS["figure-stages"].cells(Scale())[0].base


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ABSTAIN_DATA", raising=False)


@pytest.fixture
def one_epoch(monkeypatch):
    """The same code in seconds: an epoch with large batches."""
    setting = replace(recipes.SETTINGS["mnist-5k"], epochs=1, batch=256, first_guarded=0)
    monkeypatch.setitem(recipes.SETTINGS, "mnist-5k", setting)


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_dry_run_counts_what_is_missing():
    plans = {plan["target"]: plan for plan in json.loads(run("--dry-run", "--json").stdout)}
    assert plans["table-stopping"]["runs"] == 63
    assert plans["figure-rejection"]["missing"] == 0  # its runs are those of a table
    assert all(plan["seconds"] > 0 for plan in plans.values() if plan["missing"])
    table = run("all", "--dry-run", "--quick")
    assert table.exit_code == 0
    assert "together" in table.stdout


def test_quick_from_training_to_page_and_again_from_results(tmp_path, one_epoch):
    first = json.loads(run("figure-rejection", "--quick", "--json").stdout)
    assert first["outcome"] == {"done": 2, "postponed": 0, "refused": {}}
    out = tmp_path / "reproduction-quick"
    page = (out / "docs/reproduction.md").read_text()
    assert "This is a try-out" in page
    assert "figures/rejection.png" in page
    assert len(list((out / "results/runs").glob("*.json"))) == 2

    again = json.loads(run("figure-rejection", "--quick", "--json").stdout)
    assert again["outcome"]["done"] == 0
    assert again["claims"] == first["claims"]

    results = str(out / "results")
    made = run("--from", results, "--quick", "--store", "empty", "--out", "elsewhere")
    assert made.exit_code == 0
    assert (tmp_path / "elsewhere/docs/reproduction.md").read_text() == page


def test_pages_from_elsewhere_are_those_made_in_place(tmp_path):
    """To the last byte, with what only stands beside the results."""
    results = tmp_path / "reproduction/results"
    write_results(results / "figure-stages.parquet", [hand_made(STAGES)])
    row = {"set": "wine", "kind": "symmetric", "rate": 0.0, "collapsed": 0, "accuracy": [98.0]}
    small = {"rows": [{**row, "method": method} for method in ("nll", "auto")]}
    (results / "auto-tabular.json").write_text(json.dumps(small))
    assert run("--from", str(results)).exit_code == 0
    assert run("--from", str(results), "--out", "elsewhere").exit_code == 0
    for name in ("auto.md", "reproduction.md", "figures/stages.png"):
        made = (tmp_path / "docs" / name).read_bytes()
        assert (tmp_path / "elsewhere/docs" / name).read_bytes() == made
    assert "wine" in (tmp_path / "docs/auto.md").read_text()


def test_no_budget_leaves_everything_for_the_next_call(one_epoch):
    result = run("figure-stages", "--quick", "--budget", "0")
    assert result.exit_code == 0
    assert "1 run did not fit the budget" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "target must be given"),
        (("table-symetric",), "did you mean table-symmetric"),
        (("all", "--budget", "-3"), "budget must be at least 0 minutes"),
        (("--from", "nowhere"), "--from must be a folder with results, got nowhere"),
        (("--from", "."), "which has none"),
        (("all", "--budget", "nan"), "budget must be at least 0 minutes, got nan"),
        (("all", "--quick", "--out", "a-file"), "store must be a folder that can be written"),
        (
            ("--from", "full", "--out", "a-file"),
            "--out must be a folder that can be written",
        ),
        (("--from", "full", "--quick"), "results of a try-out, or leave --quick out, got full"),
        (("--from", "tried"), "results of full runs, or add --quick, got tried"),
    ],
)
def test_what_a_user_gets_wrong_is_named(arguments, words, tmp_path):
    (tmp_path / "a-file").touch()
    write_results(tmp_path / "full/figure-stages.parquet", [hand_made(STAGES)])
    tried = TARGETS["figure-stages"].cells(Scale(quick=True))[0].base
    write_results(tmp_path / "tried/figure-stages.parquet", [hand_made(tried)])
    with pytest.raises(AbstainError, match=words):
        run(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "target must be given, for example table-symmetric or all, got none"),
        (["all", "--seeds", "abc"], "--seeds must be a whole number, got 'abc'"),
        (["--zzz"], "No such option: --zzz; see --help"),
    ],
)
def test_it_is_reported_in_one_line_with_exit_code_two(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments, commands=app)
    assert end.value.code == 2
    assert capsys.readouterr().err == f"reproduction: {message}\n"


def test_it_is_a_module_to_run():
    ended = subprocess.run(
        [sys.executable, "-m", "reproduction", "table-symetric"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr.startswith("reproduction: target must be all or one of table-symmetric, ")
    assert ended.stderr.endswith("; did you mean table-symmetric?\n")


def test_seeds_must_be_positive():
    assert run("all", "--seeds", "0").exit_code == 2


def test_a_package_that_is_missing_costs_the_page_but_not_the_runs(
    one_epoch, monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("figure-stages", "--quick")
    assert result.exit_code == 0
    assert "figures need matplotlib" in result.stdout
    assert len(list((tmp_path / "reproduction-quick/results/runs").glob("*.json"))) == 1
