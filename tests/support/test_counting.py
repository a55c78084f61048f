import re
import time

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


def test_a_log_gets_a_line_a_minute_and_nothing_of_what_is_done_sooner(monkeypatch, capfd):
    with counting(100, "photos by net", show=True) as advance:
        advance(100)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr("abstain.support.counting.EVERY", 0.01)
    with counting(100, "photos by net", show=True) as advance:
        advance(30)
        shown = ""
        while "30/100" not in shown:
            shown += capfd.readouterr().err
    assert "photos by net" in shown


def test_nothing_is_shown_unasked(monkeypatch, capfd):
    monkeypatch.setattr("abstain.support.counting.EVERY", 0.01)
    with counting(100, "photos by net", show=False) as advance:
        advance(100)
        time.sleep(0.1)
    assert capfd.readouterr() == ("", "")
