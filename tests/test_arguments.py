"""A wrong type is answered like every other mistake, by all that users call."""

from pathlib import Path

import numpy as np
import pytest

from abstain import Recipe, audit, train
from abstain.arguments import typed
from abstain.auditing.folder import AuditFolder
from abstain.data import load
from abstain.errors import AbstainError
from abstain.exporting.cleaned import export_cleaned
from abstain.exporting.issues import export_issues
from abstain.exporting.label_studio import export_label_studio
from abstain.predicting.predict import predict_from
from abstain.report import write_report

DATA = (np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2)
CALLS = {
    "train": lambda **wrong: train(DATA, **wrong),
    "audit": lambda **wrong: audit(DATA, **wrong),
    "load": lambda **wrong: load(DATA, **wrong),
    "recipe": lambda **wrong: Recipe(**wrong),
    "predict": lambda **wrong: predict_from(**{"run": "run", "source": DATA, **wrong}),
    "issues": lambda **wrong: export_issues(**{"audit": None, "out": "x.csv", **wrong}),
    "cleaned": lambda **wrong: export_cleaned(**{"audit": None, "out": "x.csv", **wrong}),
    "label-studio": lambda **wrong: export_label_studio(None, "x.json", **wrong),
    "report": lambda **wrong: write_report(None, "x.html", **wrong),
    "open": lambda **wrong: AuditFolder.open(**wrong),
}


@pytest.mark.parametrize(
    ("call", "wrong", "message"),
    [
        ("train", {"folder": 5}, "folder must be a text, a path or None, got 5"),
        ("train", {"save_every": "x"}, "save_every must be a number, got 'x'"),
        ("train", {"show": "no"}, "show must be True or False, got 'no'"),
        ("train", {"skip_bad": "no"}, "skip_bad must be True or False, got 'no'"),
        ("audit", {"folder": 5}, "folder must be a text, a path or None, got 5"),
        ("audit", {"save_every": None}, "save_every must be a number, got None"),
        ("audit", {"method": 5}, "method must be a text or None, got 5"),
        ("load", {"split": 5}, "split must be a text, got 5"),
        ("load", {"features": 5.5}, "features must name a column, got a float"),
        ("load", {"weights": 5}, "weights must be a text, a path or None, got 5"),
        ("load", {"classes": 5}, "classes must be a sequence or None, got 5"),
        ("load", {"memory_budget": "1G"}, "memory_budget must be a whole number, got '1G'"),
        ("recipe", {"epochs": "3"}, "epochs must be a whole number, at least 1, got '3'"),
        ("recipe", {"epochs": True}, "epochs must be a whole number, at least 1, got True"),
        ("recipe", {"flip": "a"}, r"flip must be in \[0, 1\), got 'a'"),
        ("recipe", {"model": 5}, "model must be a text, got 5"),
        ("recipe", {"flip": 0.1, "flip_kind": 5}, "flip_kind must be a text, got 5"),
        ("predict", {"run": 5}, "run must be the folder of a run, or what train .* gave, got 5"),
        ("predict", {"run": None}, "run must be the folder of a run, .* got None"),
        ("predict", {"coverage": [0.5]}, r"coverage must be a number or None, got \[0.5\]"),
        ("predict", {"confidence": "x"}, "confidence must be a number, got 'x'"),
        ("predict", {"calibrate_split": "test"}, "calibrate_split needs calibrate, got 'test'"),
        ("predict", {"coverag": 0.5}, "'coverag'; did you mean coverage?"),
        ("issues", {}, "audit must be of the class AuditFolder, got None"),
        ("cleaned", {"audit": "run"}, "audit must be of the class AuditFolder, got 'run'"),
        ("label-studio", {}, "audit must be of the class AuditFolder, got None"),
        ("report", {}, "audit must be of the class Audit, got None"),
        ("open", {"folder": 5}, "folder must be a text or a path, got 5"),
    ],
)
def test_a_wrong_type_names_argument_rule_and_value(call, wrong, message):
    with pytest.raises(AbstainError, match=message):
        CALLS[call](**wrong)


def test_a_method_that_is_no_text_is_answered_by_those_there_are():
    for wrong in (5, [], None):
        with pytest.raises(AbstainError, match="method must be one of auto"):
            Recipe.of(wrong)


def test_numbers_and_paths_of_other_libraries_are_taken():
    @typed()
    def takes(number: float, whole: int, truth: bool, path: str, names: list[str] | None) -> str:
        return path

    assert takes(np.float32(1), np.int64(2), np.True_, "x", ["a"]) == "x"
    assert takes(1, 2, True, "x", None) == "x"
    with pytest.raises(AbstainError, match="path must be a text, got PosixPath"):
        takes(1, 2, True, Path("x"), None)
    with pytest.raises(AbstainError, match=r"whole must be a whole number, got 2\.5"):
        takes(1, 2.5, True, "x", None)
    with pytest.raises(AbstainError, match="number must be a number, got True"):
        takes(True, 2, True, "x", None)
