"""`abstain review`: a page on which a person goes through the labels of an audit."""

import shlex
import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import Console

from abstain.errors import AbstainError

EXAMPLES = """
[bold]Examples[/]

  abstain review audits/photos-…

  abstain review audits/photos-… --host 0.0.0.0 --token auto --no-browser
"""

PORT = 8700  # as in abstain.review.serving, which is not loaded for --help


def review(
    audit: Annotated[Path, typer.Argument(help="Folder of a finished audit.")],
    port: Annotated[
        int | None,
        typer.Option(help=f"Port of the server; {PORT} by default, or the next free one."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; another than loopback needs --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(help="Access token; auto generates one, and keeps it with the audit."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Begin with the random sample, not with the worst.")
    ] = False,
) -> None:
    """Go through labels in the browser: fix the worst, verify a random sample.

    Every decision is on disk before the page says so. Ctrl-C ends the server; the same command goes
    on where you stopped. Then abstain export AUDIT --to corrected writes the corrected data set.
    """
    from abstain.review.serving import (
        LOOPBACK,
        SHORTEST_TOKEN,
        kept_token,
        listen,
        own_name,
        server_of,
    )
    from abstain.review.session import Session
    from abstain.support.wording import many

    if host not in LOOPBACK and token is None:
        raise AbstainError(
            f"must be 127.0.0.1 where no token guards the page, got {host}",
            argument="host",
            remedy="make one up by {token}",
            token="auto",
        )
    if token is not None and len(token) < SHORTEST_TOKEN and token != "auto":
        raise AbstainError(
            f"must have at least {SHORTEST_TOKEN} characters, or be auto", argument="token"
        )
    with listen(host, port) as listening:
        session = Session(audit)
        try:
            guard = kept_token(session.folder) if token == "auto" else token
            server = server_of(session, token=guard, you="" if guard else own_name())
            address = address_of(host, listening.getsockname()[1], guard)
            address += "#verify" * verify
            console = Console(highlight=False)
            console.print(f"Review: {address}", soft_wrap=True, markup=False)
            console.print("Ctrl-C ends it; every decision is kept.", markup=False)
            sys.stdout.flush()
            if not no_browser:
                threading.Timer(0.5, webbrowser.open, [address]).start()
            with suppress(KeyboardInterrupt):
                server.run(sockets=[listening])
            saved = many(len(session.store.decisions.answers), "decision is", "decisions are")
            words = ["abstain", "review", str(audit)]
            words += [] if port is None else ["--port", str(port)]
            words += [] if host == "127.0.0.1" else ["--host", host]
            words += [] if token is None else ["--token", token]
            words += ["--no-browser"] * no_browser + ["--verify"] * verify
            line = f"{saved} saved. Go on with: {shlex.join(words)}"
            console.print(line, soft_wrap=True, markup=False)
        finally:
            session.close()


def address_of(host: str, port: int, token: str | None) -> str:
    """The address to open, with the token where there is one.

    >>> address_of("::1", 8700, "a&b c")
    'http://[::1]:8700/?token=a%26b%20c'
    """
    everywhere = host in ("0.0.0.0", "::")
    name = socket.gethostname() if everywhere else f"[{host}]" if ":" in host else host
    asked = "" if token is None else f"?token={quote(token, safe='')}"
    return f"http://{name}:{port}/{asked}"
