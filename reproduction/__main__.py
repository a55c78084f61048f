"""`python -m reproduction`: the command line of `abstain`, with this one command."""

from abstain.__main__ import run


def _main() -> None:
    from abstain.cli import main
    from reproduction.command import app

    main(commands=app)


if __name__ == "__main__":
    run(_main)
