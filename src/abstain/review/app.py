"""The server of the review page: Starlette, on the loopback address unless a token guards it.

Samples are asked for by row, never by name, and every file that is served is listed here: no
request says a path. Who answers decides nothing but the log: names are for people to know each
other by, the token is what keeps others out.
"""

import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from abstain.errors import AbstainError, DataError
from abstain.report.page import policy_of
from abstain.review.decisions import Answer
from abstain.review.guard import Guard
from abstain.review.queue import STATES, Filter
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
_BODY = 1_000_000
_MODES = ("fix", "verify", "verify-seen", "second", "settle")
_MOST_ITEMS = 200
_NAME = 80
_NOTE = 4_000
_DAY = 86_400.0  # seconds


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
        return JSONResponse({**session.about(), "you": you})

    async def status(_: Request) -> Response:
        found = await run_in_threadpool(session.status)
        return JSONResponse({**found, "training": retraining.status()})

    async def upcoming(request: Request) -> Response:
        asked = request.query_params
        who, count = _who(asked.get("who")), min(_number(asked, "count", 8), _MOST_ITEMS)
        without = [int(x) for x in asked.get("without", "").split(",") if x.isdigit()]
        if asked.get("like"):
            row = _row(session, asked.get("like"))
            return JSONResponse(await run_in_threadpool(session.like, row, who, count))
        if asked.get("mode") == "verify":
            found = await run_in_threadpool(session.to_verify, who, count, without)
        else:
            wanted = await run_in_threadpool(_filter, session, asked, who)
            found = await run_in_threadpool(session.next_items, wanted, who, count, without)
        return JSONResponse(found)

    async def item(request: Request) -> Response:
        row = _row(session, request.query_params.get("row"))
        return JSONResponse(await run_in_threadpool(session.item, row))

    async def near(request: Request) -> Response:
        row = _row(session, request.query_params.get("row"))
        return JSONResponse(await run_in_threadpool(session.near, row, 4))

    async def picture(request: Request) -> Response:
        asked = request.query_params
        row, side = _row(session, asked.get("row")), _number(asked, "side", 640)
        try:
            content, kind = await run_in_threadpool(session.shown.picture, row, side)
        except (DataError, OSError) as error:
            return JSONResponse({"error": _message(error)}, status_code=422)
        held = {"Cache-Control": "private, max-age=3600"}
        return Response(content, media_type=kind, headers=held)

    async def decide(request: Request) -> Response:
        body = await _body(request)
        by_row = {_row(session, x.get("row")): x for x in _list(body, "answers", dict)}
        answers = {row: _answer(one) for row, one in by_row.items()}
        if not answers:
            raise AbstainError("must hold at least one, got none", argument="answers")
        mode = body.get("mode", "fix")
        if mode not in _MODES:
            raise AbstainError(f"must be one of {', '.join(_MODES)}, got {mode!r}", argument="mode")
        entries = await run_in_threadpool(
            session.decide,
            answers,
            who=_who(body.get("who")),
            mode=mode,
            request=_text(body, "request", _NAME),
            note=_text(body, "note", _NOTE),
            seconds={
                row: took for row, one in by_row.items() if (took := _seconds(one)) is not None
            },
        )
        return JSONResponse({"entries": entries})

    async def note(request: Request) -> Response:
        body = await _body(request)
        entries = await run_in_threadpool(
            session.take_note,
            _row(session, body.get("row")),
            _text(body, "note", _NOTE),
            who=_who(body.get("who")),
            request=_text(body, "request", _NAME),
        )
        return JSONResponse({"entries": entries})

    async def undo(request: Request) -> Response:
        body = await _body(request)
        seqs, name = _list(body, "seqs", int), _text(body, "request", _NAME)
        who = _who(body.get("who"))
        entries = await run_in_threadpool(session.undo, *seqs, who=who, request=name)
        return JSONResponse({"entries": entries})

    async def guest(_: Request) -> Response:
        return JSONResponse({"name": await run_in_threadpool(session.guest)})

    async def leave(request: Request) -> Response:
        who = _who((await _body(request)).get("who"))
        await run_in_threadpool(session.leave, who)
        return JSONResponse({})

    async def log(request: Request) -> Response:
        asked = request.query_params
        before = _number(asked, "before", 0) or None
        found = await run_in_threadpool(session.log, 50, before, asked.get("by"))
        return JSONResponse({"entries": found})

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


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise AbstainError("what is sent must be JSON")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > _BODY:
            raise AbstainError(f"what is sent must be shorter than {_BODY} bytes")
    try:
        body = json.loads(content)
    except ValueError as error:
        raise AbstainError(f"what is sent must be JSON, got: {error}") from error
    if not isinstance(body, dict):
        raise AbstainError("what is sent must be an object")
    return body


def _row(session: Session, value: object) -> int:
    is_number = isinstance(value, int) or (isinstance(value, str) and value.isdecimal())
    if not is_number or not 0 <= int(value) < len(session.ids):  # type: ignore[call-overload]
        raise AbstainError(f"must be that of a label, got {value!r}", argument="row")
    return int(value)  # type: ignore[call-overload, no-any-return]


def _number(asked: Mapping[str, str], name: str, default: int) -> int:
    value = asked.get(name, str(default))
    if not value.isdecimal() or len(value) > 12:
        raise AbstainError(f"must be a whole number, got {value!r}", argument=name)
    return int(value)


def _share(asked: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(asked.get(name) or default)
    except ValueError:
        raise AbstainError(f"must be a number, got {asked[name]!r}", argument=name) from None


def _seconds(one: Mapping[str, Any]) -> float | None:
    """For how long a sample was looked at; None unless a browser can have measured it."""
    value = one.get("seconds")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return round(float(value), 1) if 0 <= value <= _DAY else None


def _text(body: Mapping[str, Any], name: str, longest: int) -> str:
    text = body.get(name, "")
    if not isinstance(text, str) or len(text) > longest:
        raise AbstainError(f"must be a text of at most {longest} characters", argument=name)
    if name == "request" and not text:
        raise AbstainError("must have a name of its own, got none", argument="request")
    return text.encode("utf-8", "replace").decode()


def _list(body: Mapping[str, Any], name: str, of: type) -> list[Any]:
    values = body.get(name)
    if not isinstance(values, list) or not all(isinstance(value, of) for value in values):
        raise AbstainError("must be a list", argument=name)
    return values


def _who(value: object) -> str:
    name = " ".join(str(value or "").split())
    if not name or len(name) > _NAME or name == "file":
        raise AbstainError("must be a name", argument="who", remedy="enter yours")
    return name.encode("utf-8", "replace").decode()


def _answer(one: Mapping[str, Any]) -> Answer:
    kind, label = one.get("kind"), one.get("label")
    if kind == "label" and isinstance(label, str):
        return Answer("label", label)
    if kind in ("unsure", "drop", "skip"):
        return Answer(kind)
    raise AbstainError(f"must be label, unsure, drop or skip, got {kind!r}", argument="kind")


def _filter(session: Session, asked: Mapping[str, str], who: str) -> Filter:
    state = asked.get("state") or "open"
    if state not in (*STATES, "any"):
        raise AbstainError(
            f"must be one of {', '.join(STATES)}, any, got {state!r}", argument="state"
        )
    chosen = asked.get("by")
    classes = [
        _number(asked, name, 0) if asked.get(name) else None for name in ("given", "proposed")
    ]
    return Filter(
        given=classes[0],
        proposed=classes[1],
        least=_share(asked, "least", 0.0),
        most=_share(asked, "most", 1.0),
        state=state,  # type: ignore[arg-type]
        rows=session.rows_of(chosen, who) if chosen else None,
    )
