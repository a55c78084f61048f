"""The bars of a training on a terminal."""

import io

from rich.console import Console

from abstain.support.progress import showing
from abstain.training.loop.hooks import live_display


def show(console):
    with showing(), live_display(100, 5, console=console) as display:
        display("step", {"step": 40.0, "epoch": 2.0, "smoothed_loss": 1.2345})
        display("epoch", {"step": 40.0, "epoch": 2.0, "test_accuracy": 0.875})
        display("step", {"step": 41.0, "epoch": 3.0, "smoothed_loss": 1.2})
    return console.file.getvalue()


def test_the_display_shows_progress_on_a_terminal_and_nothing_of_a_moment_in_a_log():
    shown = show(Console(file=io.StringIO(), force_terminal=True, width=120))
    for part in ("3/5", "41/100", "loss 1.2000", "accuracy 87.5%", "steps/s"):
        assert part in shown
    assert show(Console(file=io.StringIO(), width=120)) == ""
