"""`abstain review`: a page on which a person goes through the labels of an audit."""

import getpass
import secrets
import socket
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from abstain.errors import AbstainError

EXAMPLES = """
[bold]Examples[/]

  abstain review audits/photos-…

  abstain review audits/photos-… --host 0.0.0.0 --token auto --no-browser
"""

PORT = 8700


def review(
    audit: Annotated[Path, typer.Argument(help="Folder of a finished audit.")],
    port: Annotated[
        int | None,
        typer.Option(help=f"Of the server; {PORT} by default, or the next that is free."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; another than loopback needs --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(help="What everybody has to know who is let in; auto makes one up."),
    ] = None,
) -> None:
    """Go through labels in the browser: fix the worst, verify a random sample.

    Every decision is on disk before the page says so. Ctrl-C ends the server; the same command goes
    on where you stopped. Then abstain export AUDIT --to corrected writes the corrected data set.
    """
    try:
        import uvicorn

        from abstain.review.app import make_app
        from abstain.review.guard import LOOPBACK
        from abstain.review.session import Session
    except ModuleNotFoundError as error:
        raise AbstainError(
            f"the review page needs the package {error.name}, which is not installed",
            remedy="run: pip install 'abstain[review]'",
        ) from None
    if port is not None and not 1 <= port <= 65535:
        raise AbstainError(f"must lie in [1, 65535], got {port}", argument="port")
    if host not in LOOPBACK and token is None:
        raise AbstainError(
            f"must be 127.0.0.1 where no token guards the page, got {host}",
            argument="host",
            remedy="make one up by {token}",
            token="auto",
        )
    if token is not None and len(token) < 8 and token != "auto":
        raise AbstainError("must have at least 8 characters, or be auto", argument="token")
    guard = secrets.token_urlsafe(16) if token == "auto" else token
    listening = _listen(host, port)
    with listening:
        session = Session(audit)
        everywhere = host in ("0.0.0.0", "::")
        name = socket.gethostname() if everywhere else f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listening.getsockname()[1]}/"
        if guard is not None:
            address += f"?token={guard}"
        console = Console(highlight=False)
        console.print(f"Review: {address}", soft_wrap=True, markup=False)
        console.print("Ctrl-C ends it; every decision is kept.", markup=False)
        sys.stdout.flush()
        if not no_browser:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        config = uvicorn.Config(
            make_app(session, token=guard, you="" if guard else _own_name()),
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
        )
        try:
            uvicorn.Server(config).run(sockets=[listening])
        except KeyboardInterrupt:
            pass
        finally:
            session.close()


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket on the port that was asked for, or on the first that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tried = [port] if port is not None else [*range(PORT, PORT + 20), 0]
    for one in tried:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, one))
        except OSError as error:
            listening.close()
            if one is tried[-1]:
                raise AbstainError(
                    f"must be free on {host}, got {one}: {error.strerror}", argument="port"
                ) from error
            continue
        return listening
    raise AssertionError


def _own_name() -> str:
    """The name of whoever runs the command, for the page to begin with."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
