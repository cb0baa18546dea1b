"""A way to Kinesis on which requests fail as AWS lets them fail: throttled, refused, or records of them not taken."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_HOST = "127.0.0.1"
_JSON = "application/x-amz-json-1.1"
_SCOPE = "a/20260101/us-east-1/kinesis/aws4_request"
Answer = tuple[int, dict[str, Any]]


class FaultyKinesis:
    """Passes requests on, but for those that are to fail.

    Args:
        port: Of the server behind it.

    Attributes:
        endpoint: Its URL.
        asked: How often each operation was asked for.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._faults: list[tuple[str, Callable[[dict[str, Any]], Answer]]] = []
        self._lock = threading.Lock()
        self.asked: Counter[str] = Counter()
        way = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = way._answer(
                    self.headers["X-Amz-Target"].partition(".")[2], body, self.headers
                )
                self.send_response(status)
                self.send_header("Content-Type", _JSON)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer((_HOST, 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.endpoint = f"http://{_HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def fail(self, operation: str, code: str, times: int = 1, status: int = 400) -> None:
        """Let the next requests fail with one of AWS's errors."""
        error = {"__type": code, "message": f"{code} by the test"}
        self._faults += [(operation, lambda request: (status, error))] * times

    def take_only(self, take: Callable[[dict[str, Any]], bool], times: int = 1) -> None:
        """Of the next PutRecords, let the stream take only some records."""

        def put(request: dict[str, Any]) -> Answer:
            records = request["Records"]
            taken = [record for record in records if take(record)]
            results = iter(())
            if taken:
                status, answer = self._pass_on(
                    "PutRecords", json.dumps({**request, "Records": taken}).encode()
                )
                assert status == 200
                results = iter(json.loads(answer)["Records"])
            failure = {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "Rate exceeded"}
            whole = [next(results) if record in taken else failure for record in records]
            return 200, {"FailedRecordCount": len(records) - len(taken), "Records": whole}

        self._faults += [("PutRecords", put)] * times

    def answer(self, operation: str, answer: dict[str, Any]) -> None:
        """Answer the next request so."""
        self._faults.append((operation, lambda request: (200, answer)))

    def _answer(self, operation: str, body: bytes, headers: Any) -> tuple[int, bytes]:
        with self._lock:
            self.asked[operation] += 1
            fault = next((each for each in self._faults if each[0] == operation), None)
            if fault is not None:
                self._faults.remove(fault)
        if fault is None:
            return self._pass_on(operation, body, headers)
        status, answer = fault[1](json.loads(body))
        return status, json.dumps(answer).encode()

    def _pass_on(self, operation: str, body: bytes, headers: Any = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(_HOST, self._to, timeout=30)
        kept = {
            "Content-Type": _JSON,
            "X-Amz-Target": f"Kinesis_20131202.{operation}",
            "X-Amz-Date": "20260101T000000Z",
            "Authorization": f"AWS4-HMAC-SHA256 Credential={_SCOPE}, SignedHeaders=host, Signature=0",
        }
        if headers is not None:
            kept |= {name: headers[name] for name in ("Authorization", "X-Amz-Date") if headers[name]}
        try:
            connection.request("POST", "/", body, kept)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
