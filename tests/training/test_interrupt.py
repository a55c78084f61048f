"""One Ctrl-C asks, another forces; a launcher that passes one on does not make it two."""

import signal

import pytest

from abstain.training import processes as interrupt
from abstain.training.processes import InterruptFlag

KINDS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_signals_that_come_together_are_one(first, second):
    before = [signal.getsignal(kind) for kind in KINDS]
    with InterruptFlag() as interrupted:
        assert not interrupted
        signal.raise_signal(first)
        assert interrupted
        signal.raise_signal(second)
        assert interrupted
    assert [signal.getsignal(kind) for kind in KINDS] == before


def test_a_later_signal_forces(monkeypatch):
    monkeypatch.setattr(interrupt, "_AS_ONE", -1.0)
    with InterruptFlag() as interrupted:
        signal.raise_signal(signal.SIGINT)
        assert interrupted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
