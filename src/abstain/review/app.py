"""The server of the review page: Starlette, on the loopback address unless a token guards it.

Samples are asked for by row, never by name, and every file that is served is listed here: no
request says a path. Who answers decides nothing but the log: names are for people to know each
other by, the token is what keeps others out.
"""

import errno
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from abstain.errors import AbstainError, DataError
from abstain.report.page import policy_of
from abstain.review.asked import (
    LONGEST_NAME,
    LONGEST_NOTE,
    answers_of,
    body_of,
    class_of,
    filter_of,
    list_of,
    mode_of,
    number_of,
    numbers_of,
    person_of,
    row_in,
    row_of,
    text_of,
)
from abstain.review.export import offered, write_download
from abstain.review.guard import Guard
from abstain.review.session import Session, UndecidedError
from abstain.review.store import FILE, NotKeptError
from abstain.review.training import Retraining, page_of

_MODULES = [
    f"{name}.js"
    for name in (
        "page", "state", "server", "sample", "table", "looks", "single", "search", "trail", "links",
        "deciding", "recent", "grid", "figures", "filter", "ends", "panels", "dialog", "keys",
        "kept", "markdown",
    )
]  # fmt: skip
_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    **{name: (name, "text/javascript; charset=utf-8") for name in _MODULES},
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
_MOST_ITEMS = 200


def make_app(session: Session, *, token: str | None = None, you: str = "") -> Starlette:
    """The server of a review.

    Args:
        session: The review.
        token: Access token; None on the loopback address.
        you: The name that the page begins with.
    """
    retraining = Retraining(session)

    async def page(request: Request) -> Response:
        name, kind = _FILES[request.path_params.get("name", "")]
        content = resources.files("abstain.review").joinpath("static", name).read_bytes()
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    async def before_after(_: Request) -> Response:
        path = page_of(session.folder)
        if path is None:
            raise AbstainError("no training on the corrected labels has ended yet")
        text = await run_in_threadpool(path.read_text, encoding="utf-8")
        style = text.partition("<style>")[2].partition("</style>")[0]
        policy = f"{policy_of(style)}; frame-ancestors 'none'"
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    async def description(_: Request) -> Response:
        return JSONResponse(
            {**session.description(), "exports": offered(session.audit), "you": you}
        )

    async def status(request: Request) -> Response:
        found = await run_in_threadpool(session.status, request.query_params.get("who", ""))
        return JSONResponse({**found, "training": retraining.status()})

    async def upcoming(request: Request) -> Response:
        asked = request.query_params
        who, count = person_of(asked.get("who")), min(number_of(asked, "count", 8), _MOST_ITEMS)
        without = numbers_of(asked, "without")
        if asked.get("like"):
            row, given = row_in(session, asked, "like"), class_of(session, asked, "of")
            found = await run_in_threadpool(session.like, row, who, count, given)
        elif asked.get("mode") == "verify":
            skipped = asked.get("state") == "skip"
            found = await run_in_threadpool(session.to_verify, who, count, without, skipped=skipped)
        else:
            wanted = await run_in_threadpool(filter_of, session, asked, who)
            found = await run_in_threadpool(
                session.next_items, wanted, who, count, without, _unseen_by(asked)
            )
        await run_in_threadpool(session.show, found["items"], asked.get("visit", ""))
        return JSONResponse(found)

    async def item(request: Request) -> Response:
        asked = request.query_params
        row, unseen_by = row_in(session, asked), _unseen_by(asked)
        revealed = "revealed" in asked
        found = await run_in_threadpool(session.item, row, unseen_by=unseen_by, revealed=revealed)
        return JSONResponse(found)

    async def near(request: Request) -> Response:
        asked = request.query_params
        row = row_in(session, asked)
        may_be_blind = asked.get("mode") == "verify" or asked.get("by") == "second"
        hides = may_be_blind and "revealed" not in asked
        if hides and session.is_blind(row, person_of(asked.get("who"))):
            return JSONResponse([])  # they would name the class as given
        return JSONResponse(await run_in_threadpool(session.near, row, 4))

    async def picture(request: Request) -> Response:
        asked = request.query_params
        row, side = row_in(session, asked), number_of(asked, "side", 640)
        try:
            content, kind = await run_in_threadpool(session.shown.picture, row, side)
        except (DataError, OSError) as error:
            return JSONResponse({"error": _message(error)}, status_code=422)
        version = asked.get("version", "")
        held = "no-store"
        if version:  # after the file was read, so that it cannot have been another
            if version != await run_in_threadpool(session.shown.same.version, row):
                why = "the file changed since the page was loaded"
                return JSONResponse({"error": why}, status_code=409)
            # The address names the content and, as the guard has seen, the review.
            held = "private, max-age=3600" if asked.get("review") else held
        return Response(content, media_type=kind, headers={"Cache-Control": held})

    async def decide(request: Request) -> Response:
        body = await body_of(request)
        answers, seconds, versions = answers_of(session, body)
        entries = await run_in_threadpool(
            session.decide,
            answers,
            who=person_of(body.get("who")),
            mode=mode_of(body),
            request=text_of(body, "request", LONGEST_NAME),
            note=text_of(body, "note", LONGEST_NOTE),
            seconds=seconds,
            versions=versions,
        )
        return JSONResponse({"entries": entries})

    async def note(request: Request) -> Response:
        body = await body_of(request)
        entries = await run_in_threadpool(
            session.take_note,
            row_of(session, body.get("row")),
            text_of(body, "note", LONGEST_NOTE),
            who=person_of(body.get("who")),
            request=text_of(body, "request", LONGEST_NAME),
            unseen_by=_unseen_by(body),
        )
        return JSONResponse({"entries": entries})

    async def undo(request: Request) -> Response:
        body = await body_of(request)
        seqs, name = list_of(body, "seqs", int), text_of(body, "request", LONGEST_NAME)
        who = person_of(body.get("who"))
        unseen_by = _unseen_by(body)
        entries = await run_in_threadpool(
            session.undo, *seqs, who=who, request=name, unseen_by=unseen_by
        )
        return JSONResponse({"entries": entries})

    async def guest(_: Request) -> Response:
        return JSONResponse({"name": await run_in_threadpool(session.guest)})

    async def leave(request: Request) -> Response:
        body = await body_of(request)
        visit = text_of(body, "visit", LONGEST_NAME)
        await run_in_threadpool(session.leave, person_of(body.get("who")), visit)
        return JSONResponse({})

    async def log(request: Request) -> Response:
        asked = request.query_params
        before = number_of(asked, "before", 0) or None
        unseen_by = person_of(asked["unseen_by"]) if "unseen_by" in asked else None
        found = await run_in_threadpool(session.log, 50, before, asked.get("by"), unseen_by)
        return JSONResponse({"entries": found})

    async def export(request: Request) -> Response:
        what = request.query_params.get("what", "")
        path = await run_in_threadpool(write_download, session, what, str(request.base_url))
        return FileResponse(path, filename=path.name, headers={"Cache-Control": "no-store"})

    async def copy(_: Request) -> Response:
        """The log as it is open, also where its file is gone or its disk full."""
        held = {"Content-Disposition": f'attachment; filename="{FILE}"'}
        content = await run_in_threadpool(session.store.copy)
        return Response(content, media_type="application/vnd.sqlite3", headers=held)

    async def again(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(session.again))

    async def retrain(_: Request) -> Response:
        await run_in_threadpool(retraining.start)
        return JSONResponse(retraining.status())

    async def gain(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(retraining.gain))

    get: Mapping[str, Callable[..., Any]] = {
        "/api/about": description,
        "/api/status": status,
        "/api/next": upcoming,
        "/api/item": item,
        "/api/near": near,
        "/api/picture": picture,
        "/api/log": log,
        "/api/copy": copy,
        "/api/gain": gain,
        "/api/export": export,
    }
    post: Mapping[str, Callable[..., Any]] = {
        "/api/decide": decide,
        "/api/note": note,
        "/api/undo": undo,
        "/api/guest": guest,
        "/api/leave": leave,
        "/api/again": again,
        "/api/retrain": retrain,
    }
    files = [Route(f"/static/{name}", _named(page, name)) for name in _FILES if name]
    app = Starlette(
        routes=[
            Route("/", page),
            Route("/before-after", before_after),
            *files,
            *(Route(path, do) for path, do in get.items()),
            *(Route(path, do, methods=["POST"]) for path, do in post.items()),
        ],
        exception_handlers={
            AbstainError: _refused,
            NotKeptError: _unavailable,
            OSError: _unavailable,
            Exception: _faulty,
        },
    )
    app.add_middleware(Guard, token=token, review=session.identity)
    return app


def _named(page: Callable[[Request], Any], name: str) -> Callable[[Request], Any]:
    async def named(request: Request) -> Response:
        request.scope["path_params"] = {"name": name}
        answer: Response = await page(request)
        return answer

    return named


def _unseen_by(asked: Mapping[str, Any]) -> str | None:
    """Whoever gives a second opinion, and is told nothing of the first."""
    return person_of(asked.get("who")) if asked.get("by") == "second" else None


async def _refused(_: Request, error: Exception) -> Response:
    """Name what is invalid: the only answer for which the page lets go of a decision."""
    reasons = error.reasons if isinstance(error, UndecidedError) else {}
    invalid = [{"row": row, "error": why} for row, why in reasons.items()]
    return JSONResponse({"error": _message(error), "invalid": invalid}, status_code=400)


async def _unavailable(_: Request, error: Exception) -> Response:
    """Say why nothing can be kept now; nothing is wrong with what was sent."""
    why = _message(error)
    if isinstance(error, OSError):
        full = error.errno == errno.ENOSPC
        why = "the disk is full: make room" if full else str(error.strerror or error)
    return JSONResponse({"error": why, "copy": isinstance(error, NotKeptError)}, status_code=503)


async def _faulty(_: Request, error: Exception) -> Response:
    why = f"the server failed ({type(error).__name__}); the terminal that it runs in says where"
    return JSONResponse({"error": why}, status_code=500)


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, AbstainError) else "it cannot be read"
