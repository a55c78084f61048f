"""The review page, opened: by the command line on a folder, and in Python on what `audit` gave.

In Python the data may lie in memory; the folder then holds the verdict and the decisions.
"""

import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from abstain.arguments import typed
from abstain.auditing.answers import Answers
from abstain.auditing.folder import AuditFolder
from abstain.auditing.result import Audit
from abstain.embed.encoder import BackboneEncoder
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.joined import JoinedEncoder
from abstain.errors import AbstainError
from abstain.exporting.corrected import Corrected, corrected
from abstain.review.session import Session
from abstain.review.sharing import share_decisions
from abstain.review.store import FILE, Store
from abstain.training.saving.run_folder import RunFolder

if TYPE_CHECKING:
    import uvicorn

PORT = 8700
TOKEN = "review.token"
SHORTEST_TOKEN = 8
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Review:
    """A review page that is open, and what was decided on it so far; also once it is closed."""

    def __init__(self, found: Audit, folder: Path, address: str, end: Callable[[], None]) -> None:
        self._found = found
        self._end = end
        self.folder = folder
        """Folder of the decisions."""
        self.address = address

    def __repr__(self) -> str:
        """The address of the page."""
        return f"<Review of {self._found.data.name}: {self.address}, decisions in {self.folder}>"

    def stop(self) -> None:
        """Close the page; every decision is kept."""
        end, self._end = self._end, lambda: None
        end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def found(self) -> Audit:
        """The audit with what was decided, as `Audit.with_reviewed` gives it."""
        share_decisions(self.folder)
        return _knowing(self._found, self.folder)

    @property
    def answers(self) -> dict[str, str]:
        """The class that reviewers gave to each label, by id."""
        return self.found.reviewed

    @property
    def labels(self) -> npt.NDArray[np.str_]:
        """(N,) names of the classes as they are now, in the order of the data."""
        found = self._corrected()
        return np.array(found.classes)[found.labels]

    @property
    def keep(self) -> npt.NDArray[np.bool_]:
        """(N,) which samples stay: all but those that reviewers want dropped."""
        return self._corrected().keep

    def _corrected(self) -> Corrected:
        with Store(self.folder / FILE) as store:
            return corrected(AuditFolder.open(self.folder), store.decisions.answers)


@typed()
def review_labels(
    found: Audit,
    folder: str | os.PathLike[str] | None = None,
    *,
    port: int | None = None,
    browser: bool = True,
    wait: bool | None = None,
) -> Review:
    """Open the review page on an audit, also of data in memory.

    Args:
        found: What `audit` gave.
        folder: Where to keep the decisions: a new one, or that of an earlier review of the same
            labels, which goes on. By default that of the audit.
        port: Of the server; 8700 by default, or the next that is free.
        browser: Open a browser.
        wait: Return only after Ctrl-C. By default so, but not in a notebook, where `stop` of what
            is returned ends it.

    >>> from tempfile import TemporaryDirectory
    >>> from abstain import Recipe, audit, review_labels
    >>> found = audit("digits", Recipe(epochs=2, warm_up=1))
    >>> with (
    ...     TemporaryDirectory() as place,
    ...     review_labels(found, place, browser=False, wait=False) as page,
    ... ):
    ...     page.address.startswith("http://127.0.0.1:"), page.answers, len(page.labels)
    (True, {}, 1442)
    """
    place = found.folder if folder is None else Path(folder)
    if place is None:
        raise AbstainError("must be named for an audit that has none, got none", argument="folder")
    if found.folder is None or place.resolve() != found.folder.resolve():
        _write(found, place)
    is_in_memory = found.sources["train"] is None
    data = None if not is_in_memory else found.ran.data if found.ran else found.data
    listening = listen("127.0.0.1", port)
    try:
        session = Session(place, data)
    except BaseException:
        listening.close()
        raise
    server = server_of(session, you=own_name())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()

    def end() -> None:
        server.should_exit = True
        thread.join()
        listening.close()
        session.close()

    page = Review(found, place, f"http://127.0.0.1:{listening.getsockname()[1]}/", end)
    if browser:
        webbrowser.open(page.address)
    if wait is None:
        wait = "ipykernel" not in sys.modules
    if wait:
        sys.stdout.write(f"Review: {page.address}\nCtrl-C ends it; every decision is kept.\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            thread.join()
        page.stop()
    return page


def _write(found: Audit, place: Path) -> None:
    """Write the verdict beside the decisions of an earlier review of the same labels, if any."""
    if not (place / "summary.json").exists():
        RunFolder(place).check_new()
    else:
        issues = AuditFolder.open(place).issues
        names = ("id", "given_label")
        known = dict(zip(*(issues.column(name).to_pylist() for name in names), strict=True))
        given = [found.data.classes[k] for k in found.given.tolist()]
        if known != dict(zip(found.data.ids, given, strict=True)):
            raise AbstainError(
                f"must be new, or hold a review of these samples and labels, got {place} with "
                "others",
                argument="folder",
            )
        share_decisions(place)
    now = _knowing(found, place)
    now.write(place)
    encoder = found.ran and found.ran.encoder
    if isinstance(encoder, BackboneEncoder | FineTuningEncoder | JoinedEncoder):
        encoder.save(place)  # by which similar samples are found


def _knowing(found: Audit, place: Path) -> Audit:
    """The audit with the answers that a folder has."""
    known, kept = found.answers, AuditFolder(place).answers()
    both = Answers(by_id={**known.by_id, **kept.by_id}, drawn=known.drawn | kept.drawn)
    return replace(found, folder=place, answers=both).with_reviewed({})


def server_of(session: Session, *, token: str | None = None, you: str = "") -> "uvicorn.Server":
    """The server of a review, to be run on a socket; or an error that names what is missing."""
    try:
        import uvicorn

        from abstain.review.app import make_app
        from abstain.review.server import Server
    except ModuleNotFoundError as error:
        raise AbstainError(
            f"the review page needs the package {error.name}, which is not installed",
            remedy="run: pip install 'abstain[review]'",
        ) from None
    config = uvicorn.Config(
        make_app(session, token=token, you=you),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
    )
    return Server(config)


def listen(host: str, port: int | None) -> socket.socket:
    """A socket on the port that was asked for, or on the first that is free."""
    if port is not None and not 1 <= port <= 65535:
        raise AbstainError(f"must lie in [1, 65535], got {port}", argument="port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    tried = [port] if port is not None else [*range(PORT, PORT + 20), 0]
    for one in tried:
        # Only with the protocol named does asyncio set TCP_NODELAY, without which an answer waits
        # for the client's delayed acknowledgement, 40 ms.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, one))
            listening.listen()  # or a second review could bind to the same port
        except OSError as error:
            listening.close()
            if one is tried[-1]:
                raise AbstainError(
                    f"must be free on {host}, got {one}: {error.strerror}", argument="port"
                ) from error
            continue
        return listening
    raise AssertionError


def kept_token(folder: Path) -> str:
    """The token of a review, made once, so that pages that are open go on after a restart.

    Only the owner of the file can read it.
    """
    path = folder / TOKEN
    try:
        try:
            known = path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            known = ""
        if len(known) >= SHORTEST_TOKEN:
            path.chmod(0o600)
            return known
        token = secrets.token_urlsafe(16)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(f"{token}\n")
    except (OSError, ValueError) as error:
        raise AbstainError(
            f"{path} must be a file that its owner can write, got: {error}"
        ) from error
    return token


def own_name() -> str:
    """The name of whoever runs this, for the page to begin with."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
