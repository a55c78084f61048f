"""`python -m abstain` is `abstain`."""

import os
import sys

_INTERRUPTED = 130


def run() -> None:
    """Run the command line; Ctrl-C is quiet and has its exit code even while that is loaded."""
    try:
        from abstain.cli import main

        main()
    except (KeyboardInterrupt, SystemExit) as leaving:
        if getattr(leaving, "code", _INTERRUPTED) != _INTERRUPTED:
            raise
        # Where Ctrl-C came while Python evaluated a string, as a dataclass does when it is made,
        # Python would end by the signal and not by a code, whoever caught it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
