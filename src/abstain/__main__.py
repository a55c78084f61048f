"""`python -m abstain` is `abstain`."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

_INTERRUPTED = 130


def run(main: Callable[[], None] | None = None) -> None:
    """Run a command line, ours by default.

    Ctrl-C is quiet and has its exit code even while that is loaded.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        (main or _main)()
    except (KeyboardInterrupt, SystemExit) as leaving:
        if getattr(leaving, "code", _INTERRUPTED) != _INTERRUPTED:
            raise
        # Where Ctrl-C came while Python evaluated a string, as a dataclass does when it is made,
        # Python would end by the signal and not by a code, whoever caught it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_INTERRUPTED)
    finally:
        # The command has ended and printed its result. While torch shuts down, Ctrl-C would end
        # Python, and a finished command would look like an interrupted one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _main() -> None:
    from abstain.cli import main

    main()


def _interrupt(_signal: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; leave at once while a module is loaded.

    What is raised there torch may swallow and go on, and a training begins that nobody wants.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    run()
