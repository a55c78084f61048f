"""`abstain theory`: the table, the advice, the picture."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from abstain import theory
from abstain.cli import app, main
from abstain.errors import AbstainError

HALF_WRONG = ["--rate", "0.5", "--payoff", "9.99", "--classes", "10"]


def run(*arguments):
    result = CliRunner().invoke(app, ["theory", *arguments], env={"COLUMNS": "100"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def run_json(*arguments):
    return json.loads(run(*arguments, "--json"))


def one_line(text):
    return " ".join(text.split())


def test_prints_the_plateau_its_parts_and_when_to_stop():
    output = one_line(run(*HALF_WRONG))
    for line in (
        "50% of the labels wrong (symmetric), 10 classes, payoff 9.99",
        "plateau 1.7912",
        "clean 0.6931",
        "corrupt 2.8893",
        "untrained 2.3025",
        "margin 0.5113",
        "learnable yes",
        "payoffs 2–10",
        "Stop when the training loss reaches 1.7912.",
    ):
        assert line in output


def test_columns_are_aligned():
    rows = [line for line in run(*HALF_WRONG).splitlines() if "where" in line or "mean" in line]
    ends = {line.index(word) + len(word) for line in rows for word in line.split() if "." in word}
    assert len(rows) == 4
    assert len(ends) == 1


def test_json_holds_what_theory_gives():
    answer = run_json("--rate", "0.2", "--payoff", "9.99", "--classes", "10", "--noise", "pairflip")
    parts = theory.plateau_parts(0.8, 9.99, 10, "pairflip")
    assert answer["plateau"] == pytest.approx(parts.total)
    assert answer["clean"] == pytest.approx(parts.clean)
    assert answer["corrupt"] == pytest.approx(parts.corrupt)
    assert answer["untrained"] == pytest.approx(theory.untrained_loss(9.99, 10))
    assert answer["margin"] == pytest.approx(answer["untrained"] - answer["plateau"])
    assert answer["payoffs"] == pytest.approx([1.25, 10])
    assert answer["suggested_payoff"] == pytest.approx(9.99)
    assert answer["learnable"] is True
    assert answer["works"] is True
    assert answer["advice"] is None


def test_payoff_left_out_is_one_that_works():
    answer = run_json("--rate", "0.3", "--classes", "2")
    assert answer["payoff"] == pytest.approx(1.95)
    assert answer["works"] is True


def test_a_payoff_too_low_is_warned_of_with_one_that_works():
    answer = run_json("--rate", "0.8", "--payoff", "4", "--classes", "10")
    assert answer["learnable"] is answer["works"] is False
    assert "4 is not above 1/(1 − rate) = 5" in answer["advice"]
    assert "log(payoff) = 1.3863" in answer["advice"]
    assert answer["advice"].endswith("Take a payoff between 5 and 10, for example 9.99.")
    output = one_line(run("--rate", "0.8", "--payoff", "4", "--classes", "10"))
    assert answer["advice"] in output
    assert "Stop when" not in output


def test_a_payoff_above_the_number_of_classes_is_called_cross_entropy():
    answer = run_json("--rate", "0.2", "--payoff", "9.99", "--classes", "2")
    assert answer["works"] is False
    assert answer["advice"].startswith("This is plain cross-entropy")
    assert "for example 1.95" in answer["advice"]


@pytest.mark.parametrize(("rate", "noise"), [("0.9", "symmetric"), ("0.5", "pairflip")])
def test_where_no_payoff_works_it_says_so(rate, noise):
    arguments = ["--rate", rate, "--classes", "10", "--noise", noise]
    answer = run_json(*arguments, "--payoff", "9.99")
    assert answer["payoffs"] is answer["suggested_payoff"] is None
    assert answer["works"] is False
    assert "no payoff helps" in answer["advice"]
    assert "payoffs none" in one_line(run(*arguments, "--payoff", "9.99"))
    with pytest.raises(AbstainError, match="payoff cannot be chosen"):
        run(*arguments)


def test_a_thin_margin_is_pointed_out_but_works():
    answer = run_json("--rate", "0.85", "--payoff", "9.99", "--classes", "10")
    assert answer["margin"] == pytest.approx(0.013, abs=5e-4)
    assert answer["works"] is True
    assert answer["advice"].startswith("The margin is thin")


@pytest.mark.parametrize("rate", ["0", "1e-20"])
def test_without_wrong_labels_there_is_no_corrupt_part(rate):
    answer = run_json("--rate", rate, "--classes", "10")
    assert answer["plateau"] == 0
    assert answer["corrupt"] is None


def test_without_wrong_labels_there_is_nothing_to_stop_for():
    output = run("--rate", "0", "--classes", "10")
    assert "nothing to stop for" in output
    assert "Stop when" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "1", "--classes", "10"], "rate must lie in [0, 1), got 1"),
        (["--rate", "-0.1", "--classes", "10"], "rate must lie in [0, 1), got -0.1"),
        (["--rate", "nan", "--classes", "10"], "rate must lie in [0, 1), got nan"),
        ([*HALF_WRONG, "--payoff", "0.5"], "payoff must be greater than 1, got 0.5"),
        ([*HALF_WRONG, "--payoff", "inf"], "payoff must be a finite number"),
        ([*HALF_WRONG, "--noise", "odd"], "noise must be one of symmetric, pairflip, got 'odd'"),
        ([*HALF_WRONG, "--plot", "a.doc"], "plot must end in one of .png, .svg, .pdf, .jpg"),
        ([*HALF_WRONG, "--plot", "a"], "plot must end in one of"),
        ([*HALF_WRONG, "--plot", "no/such/a.png"], "plot cannot be written to no/such/a.png"),
        (["--rate", "0.5", "--classes", "1"], "--classes"),
        (["--rate", "half", "--classes", "10"], "--rate"),
        (["--classes", "10"], "--rate"),
    ],
)
def test_wrong_input_ends_in_exit_code_2_and_no_traceback(
    arguments, message, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        main(["theory", *arguments])
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the plot extra")
@pytest.mark.parametrize("rate", ["0", "0.5", "0.95"])
@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PDF", b"%PDF")]
)
def test_plot_writes_a_picture(rate, name, start, tmp_path):
    path = tmp_path / name
    arguments = ["--rate", rate, "--payoff", "9.99", "--classes", "10", "--plot", str(path)]
    assert name in run(*arguments).replace("\n", "")
    assert path.read_bytes().startswith(start)


def test_plot_into_a_folder_is_refused(tmp_path):
    folder = tmp_path / "a.png"
    folder.mkdir()
    with pytest.raises(AbstainError, match="plot cannot be written to"):
        run(*HALF_WRONG, "--plot", str(folder))


def test_plot_without_matplotlib_names_the_extra(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SystemExit):
        main(["theory", *HALF_WRONG, "--plot", str(tmp_path / "a.png")])
    assert "pip install 'abstain[plot]'" in capsys.readouterr().err


def test_help_teaches_by_example():
    output = run("--help")
    assert "abstain theory --rate 0.5 --payoff 9.99 --classes 10" in output
    assert "memorised" in output


def test_importing_the_command_imports_nothing_heavy():
    heavy = ("numpy", "scipy", "matplotlib", "torch")
    code = f"import abstain.cli.theory, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
