import re
import time

from abstain.support.progress import counting, showing, with_progress


def test_a_terminal_shows_how_fast_it_goes_and_how_long_it_will_take(monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # which makes rich take anything for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    with showing(), counting(100, "photos by net") as advance:
        for _ in range(3):
            advance(10)
    shown = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", capfd.readouterr().err)
    assert "photos by net" in shown
    assert "30/100" in shown
    assert re.search(r"[\d,]+ samples/s", shown)
    assert re.search(r"\d:\d\d:\d\d", shown)


def test_a_log_gets_a_line_a_minute_and_nothing_of_what_is_done_sooner(monkeypatch, capfd):
    with showing(), counting(100, "photos by net") as advance:
        advance(100)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr("abstain.support.progress.EVERY", 0.01)
    with showing(), counting(100, "photos by net") as advance:
        advance(30)
        shown = ""
        while "30/100" not in shown:
            shown += capfd.readouterr().err
    assert "photos by net" in shown


def test_nothing_is_shown_unasked(monkeypatch, capfd):
    monkeypatch.setattr("abstain.support.progress.EVERY", 0.01)
    with counting(100, "photos by net") as advance:
        advance(100)
        time.sleep(0.1)
    assert capfd.readouterr() == ("", "")


def test_it_is_set_once_for_all_that_is_called_within(monkeypatch, capfd):
    monkeypatch.setattr("abstain.support.progress.EVERY", 0.01)

    @with_progress
    def inner(*, show=False):
        with counting(10, "inner") as advance:
            advance(4)
            time.sleep(0.1)

    @with_progress
    def outer(*, show=False):
        inner()

    outer(show=True)
    assert "4/10" in capfd.readouterr().err
    outer()
    assert capfd.readouterr() == ("", "")
