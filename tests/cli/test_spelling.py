"""Errors of a command name its options, whatever the function behind it calls them."""

import pytest
import typer

from abstain.cli.spelling import Command
from abstain.errors import AbstainError


def made(error):
    app = typer.Typer()

    @app.command(cls=Command)
    def wait(
        source: str = typer.Argument("here"),
        image_size: int | None = typer.Option(None),
        lr: float | None = typer.Option(None, "--learning-rate", "--lr"),
        from_: str | None = typer.Option(None, "--from"),
        skip_bad: bool = typer.Option(False, "--skip-bad"),
    ):
        raise error

    return app


def test_a_seed_that_was_given_for_all_is_called_so():
    app = typer.Typer()

    @app.command(cls=Command)
    def wait(seed: int | None = None, seed_noise: int | None = None):
        raise AbstainError("must be whole, got -1", argument="seed_noise")

    for arguments, name in (
        (["--seed", "-1"], "--seed"),
        (["--seed-noise", "-1"], "--seed-noise"),
        (["--seed", "1", "--seed-noise", "-1"], "--seed-noise"),
    ):
        with pytest.raises(AbstainError, match=f"^{name} must be whole, got -1$"):
            app(arguments, standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--out", "x"], "--out must be new, got x"),
        (["--resume", "x"], "--resume must be new, got x"),
        (["x", "--out", "y"], "run must be new, got x"),
        (["--from", "x", "--out", "y"], "--from must be new, got x"),
        (["--from", "y", "--out", "x"], "--out must be new, got x"),
        (["runs", "--out", "runs/2"], "--out must be new, got runs/2, which has files"),
        ([], "folder must be new, got x"),
    ],
)
def test_the_folder_of_a_run_is_called_what_the_user_called_it(arguments, text):
    app = typer.Typer()

    @app.command(cls=Command)
    def wait(
        run: str | None = typer.Argument(None),
        resume: str | None = typer.Option(None),
        from_: str | None = typer.Option(None, "--from"),
        out: str | None = typer.Option(None),
    ):
        which = "runs/2, which has files" if out == "runs/2" else "x"
        raise AbstainError(f"must be new, got {which}", argument="folder")

    with pytest.raises(AbstainError, match=f"^{text}$"):
        app(arguments, standalone_mode=False)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (AbstainError("must be whole", argument="image_size"), "--image-size must be whole"),
        (AbstainError("must be small", argument="lr"), "--learning-rate must be small"),
        (AbstainError("must exist", argument="source"), "source must exist"),
        (AbstainError("must be a Recipe", argument="recipe"), "recipe must be a Recipe"),
        (AbstainError("no", remedy="use {from_}", from_=None), "no; use --from"),
        (AbstainError("no", remedy="use {from_}", from_="a b"), "no; use --from 'a b'"),
        (AbstainError("no", remedy="use {skip_bad}", skip_bad=True), "no; use --skip-bad"),
        (AbstainError("no", remedy="use {resume}", resume=True), "no; use resume=True"),
    ],
)
def test_arguments_and_settings_become_options(error, text):
    with pytest.raises(AbstainError) as raised:
        made(error)([], standalone_mode=False)
    assert str(raised.value) == text
