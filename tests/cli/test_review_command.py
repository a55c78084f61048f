"""Tests of cli/review.py up to the server, which tests/review runs."""

from urllib.parse import parse_qs, urlsplit

import pytest

from abstain.cli import main
from abstain.cli.review import address_of


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


@pytest.mark.parametrize("token", ["a&b=c", "a#b+c", "a b%20c", "schlüssel/?;"])
def test_the_address_that_is_printed_has_the_token_as_it_is(token):
    parts = urlsplit(address_of("0.0.0.0", 8700, token))
    assert parse_qs(parts.query) == {"token": [token]}
    assert not parts.fragment
    assert urlsplit(address_of("127.0.0.1", 8700, None)).query == ""
