"""Access to the review page, and the headers of every answer."""

import hashlib
import hmac
import ipaddress
import re
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from abstain.review.serving import LOOPBACK

COOKIE = "abstain-review"
REVIEW = "abstain-review"
"""The header in which a page names the review that it shows."""
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:[0-9]{1,5})?", re.ASCII)
"""A name or an address, with a port or without."""
_LED_ON = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Review</title>'
    '<meta http-equiv="refresh" content="0;url=/"><a href="/">To the review</a></html>'
)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Lets in who may: by Host and Origin, and by the token where there is one.

    Args:
        app: What is guarded.
        token: Access token.
        review: The name of the review: a page that was opened on another must not go on here.
    """

    def __init__(self, app: ASGIApp, token: str | None, review: str) -> None:
        self._app = app
        self._review = review
        self._token = token
        # Not the token itself, which may have characters that no cookie can have.
        self._pass = None if token is None else hashlib.sha256(token.encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on; every answer has the headers that keep a page safe."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Any) -> None:  # noqa: ANN401
            if message["type"] == "http.response.start":
                safe = [(k.lower().encode(), v.encode()) for k, v in _HEADERS.items()]
                named = {name for name, _ in message["headers"]}
                if b"cache-control" not in named:
                    safe.append((b"cache-control", b"no-store"))
                new = [(name, value) for name, value in safe if name not in named]
                message["headers"] = [*message["headers"], *new]
            await send(message)

        request = Request(scope)
        answer = self._refusal(request) or self._welcome(request) or self._mistaken(request)
        await (answer or self._app)(scope, receive, send_safely)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if not is_known_host(host, anywhere=self._token is not None):
            # Another site's name that leads here: its scripts would be at home on this server.
            return JSONResponse({"error": f"no review is served as {host!r}"}, status_code=421)
        if not _is_from_here(request):
            return JSONResponse({"error": "requests of other sites are refused"}, status_code=403)
        origin = request.headers.get("origin")
        if origin is not None and _split(origin).netloc != host:
            return JSONResponse({"error": "requests of other sites are refused"}, status_code=403)
        if request.method == "POST" and origin is None:
            return JSONResponse({"error": "requests must say their origin"}, status_code=403)
        return None

    def _welcome(self, request: Request) -> Response | None:
        """Ask for the token where there is one: once in the address, then as a cookie."""
        if self._token is None or self._pass is None:
            return None
        cookie = _cookie_of(request.headers.get("host", ""))
        given = request.query_params.get("token")
        if given is not None and _same(given, self._token):
            # No redirect: who follows a link in a mail would be led on without the strict cookie.
            answer = HTMLResponse(_LED_ON)
            answer.set_cookie(cookie, self._pass, httponly=True, samesite="strict")
            return answer
        if _same(request.cookies.get(cookie, ""), self._pass):
            return None
        return JSONResponse(
            {"error": "open the address that abstain review printed, with its token"},
            status_code=401,
        )

    def _mistaken(self, request: Request) -> Response | None:
        asked = request.query_params.get("review")
        named = request.headers.get(REVIEW, asked or self._review)
        if named == self._review:
            return None
        why = (
            "this page is of another review than the server: start that one, or load the page anew"
        )
        return JSONResponse({"error": why}, status_code=409)


def is_known_host(host: str, *, anywhere: bool) -> bool:
    """Whether a server on this machine may be called so.

    >>> is_known_host("127.0.0.1:8700", anywhere=False), is_known_host("[::1]:8700", anywhere=False)
    (True, True)
    >>> is_known_host("evil.example:8700", anywhere=False)
    False
    """
    if not _HOST.fullmatch(host):
        return False
    name = _split(f"//{host}").hostname or ""
    if name in LOOPBACK:
        return True
    if not anywhere:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        import socket

        return name in {socket.gethostname().lower(), socket.getfqdn().lower()}
    return True


def _split(address: str) -> SplitResult:
    """The parts of an address, all empty if it is none, such as `http://[::1`."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _cookie_of(host: str) -> str:
    """A name for each port: browsers send the cookies of a host to all of its ports."""
    port = host.rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isdecimal() else COOKIE


def _is_from_here(request: Request) -> bool:
    """Whether a browser says that this page asks, or a person.

    Another site could otherwise count samples by which pictures load, or take labels from people
    by asking for the next ones. It may only lead to the page itself. Programs that are no browsers
    do not send these headers.
    """
    if request.headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return True
    return (
        request.method == "GET"
        and request.url.path == "/"
        and request.headers.get("sec-fetch-mode") == "navigate"
        and request.headers.get("sec-fetch-dest") == "document"
    )


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
