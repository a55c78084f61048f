"""The server of the review page: Starlette, on the loopback address unless a token guards it.

Samples are asked for by row, never by name, and every file that is served is listed here: no
request says a path. Who answers decides nothing but the log: names are for people to know each
other by, the token is what keeps others out.
"""

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
    row_of,
    text_of,
)
from abstain.review.downloads import offered, write_download
from abstain.review.guard import Guard
from abstain.review.session import Session
from abstain.review.training import Retraining, page_of

_MODULES = [
    f"{name}.js"
    for name in (
        "page", "state", "server", "sample", "single", "trail", "deciding", "grid", "figures",
        "panels",
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
        token: What everybody has to know who is let in; None on the loopback address.
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

    async def about(_: Request) -> Response:
        return JSONResponse({**session.about(), "exports": offered(session.audit), "you": you})

    async def status(_: Request) -> Response:
        found = await run_in_threadpool(session.status)
        return JSONResponse({**found, "training": retraining.status()})

    async def upcoming(request: Request) -> Response:
        asked = request.query_params
        who, count = person_of(asked.get("who")), min(number_of(asked, "count", 8), _MOST_ITEMS)
        without = numbers_of(asked, "without")
        if asked.get("like"):
            row, given = row_of(session, asked.get("like")), class_of(session, asked, "of")
            return JSONResponse(await run_in_threadpool(session.like, row, who, count, given))
        if asked.get("mode") == "verify":
            found = await run_in_threadpool(session.to_verify, who, count, without)
        else:
            wanted = await run_in_threadpool(filter_of, session, asked, who)
            found = await run_in_threadpool(session.next_items, wanted, who, count, without)
        return JSONResponse(found)

    async def item(request: Request) -> Response:
        row = row_of(session, request.query_params.get("row"))
        return JSONResponse(await run_in_threadpool(session.item, row))

    async def near(request: Request) -> Response:
        row = row_of(session, request.query_params.get("row"))
        return JSONResponse(await run_in_threadpool(session.near, row, 4))

    async def picture(request: Request) -> Response:
        asked = request.query_params
        row, side = row_of(session, asked.get("row")), number_of(asked, "side", 640)
        try:
            content, kind = await run_in_threadpool(session.shown.picture, row, side)
        except (DataError, OSError) as error:
            return JSONResponse({"error": _message(error)}, status_code=422)
        held = {"Cache-Control": "private, max-age=3600"}
        return Response(content, media_type=kind, headers=held)

    async def decide(request: Request) -> Response:
        body = await body_of(request)
        answers, seconds = answers_of(session, body)
        entries = await run_in_threadpool(
            session.decide,
            answers,
            who=person_of(body.get("who")),
            mode=mode_of(body),
            request=text_of(body, "request", LONGEST_NAME),
            note=text_of(body, "note", LONGEST_NOTE),
            seconds=seconds,
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
        )
        return JSONResponse({"entries": entries})

    async def undo(request: Request) -> Response:
        body = await body_of(request)
        seqs, name = list_of(body, "seqs", int), text_of(body, "request", LONGEST_NAME)
        who = person_of(body.get("who"))
        entries = await run_in_threadpool(session.undo, *seqs, who=who, request=name)
        return JSONResponse({"entries": entries})

    async def guest(_: Request) -> Response:
        return JSONResponse({"name": await run_in_threadpool(session.guest)})

    async def leave(request: Request) -> Response:
        who = person_of((await body_of(request)).get("who"))
        await run_in_threadpool(session.leave, who)
        return JSONResponse({})

    async def log(request: Request) -> Response:
        asked = request.query_params
        before = number_of(asked, "before", 0) or None
        found = await run_in_threadpool(session.log, 50, before, asked.get("by"))
        return JSONResponse({"entries": found})

    async def export(request: Request) -> Response:
        what = request.query_params.get("what", "")
        path = await run_in_threadpool(write_download, session, what, str(request.base_url))
        return FileResponse(path, filename=path.name, headers={"Cache-Control": "no-store"})

    async def again(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(session.again))

    async def retrain(_: Request) -> Response:
        await run_in_threadpool(retraining.start)
        return JSONResponse(retraining.status())

    async def gain(_: Request) -> Response:
        return JSONResponse(await run_in_threadpool(retraining.gain))

    get: Mapping[str, Callable[..., Any]] = {
        "/api/about": about,
        "/api/status": status,
        "/api/next": upcoming,
        "/api/item": item,
        "/api/near": near,
        "/api/picture": picture,
        "/api/log": log,
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
        exception_handlers={AbstainError: _refused},
    )
    app.add_middleware(Guard, token=token)
    return app


def _named(page: Callable[[Request], Any], name: str) -> Callable[[Request], Any]:
    async def named(request: Request) -> Response:
        request.scope["path_params"] = {"name": name}
        answer: Response = await page(request)
        return answer

    return named


async def _refused(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": _message(error)}, status_code=400)


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, AbstainError) else "it cannot be read"
