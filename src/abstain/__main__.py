"""`python -m abstain` is `abstain`."""

import os
import signal
import sys
from collections.abc import Callable
from types import CodeType, FrameType

_INTERRUPTED = 130


def run(main: Callable[[], None] | None = None) -> None:
    """Run a command line, ours by default.

    Ctrl-C ends in one line, and with its exit code, even while that is loaded.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        (main or _main)()
    except (KeyboardInterrupt, SystemExit) as leaving:
        if getattr(leaving, "code", _INTERRUPTED) != _INTERRUPTED:
            raise
        if isinstance(leaving, KeyboardInterrupt):
            _say_so(is_begun=False)
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
    codes = []
    while frame is not None:
        codes.append(frame.f_code)
        frame = frame.f_back
    if any(code.co_filename.startswith("<frozen importlib") for code in codes):
        _say_so(is_begun=any(map(_does_work, codes)))
        os._exit(_INTERRUPTED)
    raise KeyboardInterrupt


def _does_work(code: CodeType) -> bool:
    """Whether this is a function of ours beyond the command line, so that something was begun."""
    package, file = __file__.removesuffix("__main__.py"), code.co_filename
    is_line = file == __file__ or file.startswith(f"{package}cli{os.sep}")
    return file.startswith(package) and not is_line and code.co_name != "<module>"


def _say_so(*, is_begun: bool) -> None:
    if os.environ.get("RANK", "0") == "0":  # of several processes, one says it
        os.write(2, b"Interrupted.\n" if is_begun else b"Interrupted before anything was done.\n")


if __name__ == "__main__":
    run()
