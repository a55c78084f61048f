"""`python -m abstain` is `abstain`."""

import sys


def run() -> None:
    """Run the command line; Ctrl-C is quiet even while it is being loaded."""
    try:
        from abstain.cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()


if __name__ == "__main__":
    run()
