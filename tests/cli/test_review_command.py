"""Tests of cli/review.py up to the server, which tests/review runs."""

import pytest

from abstain.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere"),
        (["nowhere", "--port", "0"], "--port must lie in [1, 65535], got 0"),
        (["nowhere", "--host", "0.0.0.0"], "--token"),
    ],
)
def test_what_cannot_be_reviewed_is_one_line(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leaving:
        main(["review", *arguments])
    assert leaving.value.code == 2
    errors = capsys.readouterr().err
    assert message in errors.replace("\n", " ")
    assert "Traceback" not in errors
