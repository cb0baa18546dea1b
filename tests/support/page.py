"""Asks the page without a server."""

from __future__ import annotations

import asyncio
from typing import Any


def asked(page: Any, address: str) -> str:
    """What the page answers."""
    path, _, query = address.partition("?")
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": []}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    asyncio.run(page(scope, receive, send))
    return b"".join(each.get("body", b"") for each in sent).decode()
