"""Who may ask: the page answers whoever opened it, and nobody else.

Invariants:
    * Only GET and HEAD are answered, so no request changes anything. Where the page may run its program (``runs``), POST is
      too, but only from a page of this server: with an ``Origin`` that is this server's and a header that no form can send.
    * A request must name this server in ``Host``: a foreign website whose name was made to point here reads nothing.
    * A request that another website's page caused (``Origin``, ``Sec-Fetch-Site``) is refused; following a link is not.
    * Bound elsewhere than to the loopback, each request needs the token: once in the address, then in a cookie.
    * The browser is told to run only this server's own script, to load nothing from elsewhere, and to show no frame of it.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "changelog-engine-token"
PARAMETER = "token"
ASKS = "x-changelog-engine"
"""A header that the page's script sends with POST. Another website's may not, and a form cannot."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class PageGuard:
    """The ASGI application in front of the page.

    Args:
        hosts: what ``Host`` may say, with the port where it is not the scheme's own.
        token: what each request must know; None on the loopback.
        runs: the page was given a program that it may run.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], token: str | None, runs: bool = False) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token
        self._methods = ("GET", "HEAD", "POST") if runs else ("GET", "HEAD")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket: the page has none
            await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in self._methods:
            allowed = ", ".join(self._methods)
            return PlainTextResponse(f"This page only shows: {allowed}", 405, {"Allow": allowed})
        if headers.getlist("host") != [host := headers.get("host", "")] or host.lower() not in self._hosts:
            return PlainTextResponse(f"This server is not called {host!r}", 421)
        origin = headers.get("origin")
        if origin is not None and not _is_from(origin, host):
            return PlainTextResponse("Another website asked for this", 403)
        from_elsewhere = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if from_elsewhere and headers.get("sec-fetch-dest") != "document":
            return PlainTextResponse("Another website asked for this", 403)
        if scope["method"] == "POST" and (origin is None or from_elsewhere or headers.get(ASKS) is None):
            return PlainTextResponse("Only the page itself may ask for this", 403)
        return None if self._token is None else self._token_refusal(scope, headers)

    def _token_refusal(self, scope: Scope, headers: Headers) -> Response | None:
        asked = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if self._is_token(asked.pop(PARAMETER, [""])[-1]):
            rest = urlencode(asked, doseq=True)
            # The path begins with one slash: two would lead to another server.
            path = "/" + scope["path"].lstrip("/")
            answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(COOKIE, self._token or "", httponly=True, samesite="strict", path="/")
            return answer
        cookies = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            cookies.clear()
        if COOKIE in cookies and self._is_token(cookies[COOKIE].value):
            return None
        return PlainTextResponse("Open the address that the command printed: it has the token", 401)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self._token or "").encode())


def _is_from(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # such as http://[
        return False
