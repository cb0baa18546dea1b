"""The page answers whoever opened it, and nobody else: the guard, without a browser (reliability case 43)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from changelog_engine.cli.ui import page_server, ui
from changelog_engine.ui.guard import COOKIE, PageGuard

HOST = "127.0.0.1:8765"


async def page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"shown"})


def ask(
    token: str | None = None,
    method: str = "GET",
    path: str = "/",
    query: str = "",
    kind: str = "http",
    runs: bool = False,
    **headers: str,
) -> tuple[Any, dict[str, str]]:
    """The status (or the code of a closed WebSocket) and the headers of an answer."""
    given = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    asyncio.run(PageGuard(page, frozenset({HOST}), token, runs)(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0].get("headers", ())}
    return sent[0].get("status", sent[0].get("code")), found


def test_who_opened_it_is_answered_with_a_policy_that_runs_no_foreign_script():
    status, headers = ask()
    assert status == 200
    assert "script-src 'self';" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_but_get_and_head_is_answered(method: str):
    assert ask(method=method)[0] == 405
    assert ask(method="HEAD")[0] == 200


def test_post_is_answered_only_to_the_pages_own_script_where_there_is_a_program():
    own = {"origin": f"http://{HOST}", "x_changelog_engine": "explain", "sec_fetch_site": "same-origin"}
    assert ask(method="POST", runs=True, **own)[0] == 200
    assert ask(method="POST", **own)[0] == 405
    assert ask(method="PUT", runs=True, **own)[0] == 405
    assert ask(method="OPTIONS", runs=True, **own)[0] == 405
    assert ask(method="POST", runs=True, token="secret", **own)[0] == 401
    for wrong in (
        {"origin": "http://evil.example"},
        {"origin": "http://["},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site", "sec_fetch_dest": "document"},
        {"host": "evil.example:8765", "origin": "http://evil.example:8765"},
    ):
        assert ask(method="POST", runs=True, **{**own, **wrong})[0] in (403, 421)
    for missing in ("origin", "x_changelog_engine"):
        assert ask(method="POST", runs=True, **{k: v for k, v in own.items() if k != missing})[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "", "127.0.0.1:8765.evil"]
)
def test_a_foreign_name_that_points_here_is_refused(host: str):
    assert ask(host=host)[0] == 421


def test_what_another_website_asks_for_is_refused():
    assert ask(origin="http://evil.example")[0] == 403
    assert ask(origin="null")[0] == 403
    assert ask(origin=f"http://{HOST}")[0] == 200
    assert ask(sec_fetch_site="cross-site", sec_fetch_mode="no-cors", sec_fetch_dest="script")[0] == 403
    assert ask(sec_fetch_site="same-site", sec_fetch_mode="cors", sec_fetch_dest="empty")[0] == 403
    assert ask(sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="iframe")[0] == 403
    assert ask(sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document")[0] == 200
    assert ask(sec_fetch_site="same-origin", sec_fetch_dest="empty")[0] == 200


def test_it_listens_on_the_loopback_unless_told_otherwise(tmp_path: Path):
    server = page_server(str(tmp_path))
    try:
        assert server._socket.getsockname()[0] == "127.0.0.1"
    finally:
        server._socket.close()
    assert [option.default for option in ui.params if option.name == "host"] == ["127.0.0.1"]


def test_there_is_no_websocket():
    assert ask(kind="websocket")[0] == 1008


def test_a_token_is_asked_for_and_goes_from_the_address_into_a_cookie():
    assert ask(token="secret")[0] == 401
    assert ask(token="secret", query="token=wrong")[0] == 401
    assert ask(token="secret", cookie=f"{COOKIE}=wrong")[0] == 401
    status, headers = ask(token="secret", path="//evil.example/job", query="at=3&token=secret")
    assert (status, headers["location"]) == (303, "/evil.example/job?at=3")
    assert "HttpOnly" in headers["set-cookie"]
    assert "samesite=strict" in headers["set-cookie"].lower()
    assert ask(token="secret", cookie=f"{COOKIE}=secret")[0] == 200
