import re

import pytest

from abstain.support.counting import counting


def test_a_terminal_shows_how_fast_it_goes_and_how_long_it_will_take(monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # which makes rich take anything for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    with counting(100, "photos by net", show=True) as advance:
        for _ in range(3):
            advance(10)
    shown = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", capfd.readouterr().err)
    assert "photos by net" in shown
    assert "30/100" in shown
    assert re.search(r"[\d,]+ samples/s", shown)
    assert re.search(r"\d:\d\d:\d\d", shown)


@pytest.mark.parametrize("show", [False, True])
def test_nothing_is_shown_where_nobody_watches(show, capfd):
    with counting(100, "photos by net", show=show) as advance:
        advance(100)
    assert capfd.readouterr() == ("", "")
