"""An S3-compatible store: versitygw over a folder, or moto where there is no Go to build that with.

Both keep to conditional puts: of writers that race for an object with ``If-None-Match: *``, one wins. moto checks and writes
in two steps, therefore it serves one request at a time; and it keeps its objects in memory, so they end with the process.
"""

from __future__ import annotations

import http.client
import os
import re
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from pyarrow import fs

from servers.process import CACHE, HOST, Server, ServerMissing, accepts_connections

VERSITYGW_VERSION = "v1.8.0"
VERSITYGW_PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
VERSITYGW = CACHE / f"versitygw-{VERSITYGW_VERSION}" / "versitygw"
GO_FOLDERS = ("/usr/local/go/bin",)
MOTO_VERSION = "5.2.5"
MOTO = CACHE / f"moto-{MOTO_VERSION}"

_REQUEST = re.compile(r" s3_(\w+) \S+ (\S+)")
_SERVE_MOTO = """
import sys
from werkzeug.serving import run_simple
from moto.server import DomainDispatcherApplication, create_backend_app
run_simple(sys.argv[1], int(sys.argv[2]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""


def kind() -> str | None:
    """``versitygw`` or ``moto``, whichever is installed; None when neither is."""
    if VERSITYGW.is_file():
        return "versitygw"
    return "moto" if MOTO.is_dir() else None


class S3Server(Server):
    """A store with one account.

    Attributes:
        endpoint: Its URL.
        access_key: Of the account.
        secret_key: Of the account.
        region: The store's.
    """

    name = "s3"
    access_key = "tester"
    secret_key = "se/cr+et"
    region = "us-east-1"

    def __init__(self) -> None:
        super().__init__()
        self.endpoint = f"http://{HOST}:{self.port}"

    @classmethod
    def check_installed(cls) -> None:
        if kind() is None:
            raise ServerMissing("no S3 server is here (versitygw or moto): make servers")

    @property
    def keeps_objects(self) -> bool:
        """Whether objects outlive the process."""
        return kind() == "versitygw"

    def prepare(self) -> None:
        self._objects.mkdir()
        self._metadata.mkdir()

    def command(self) -> list[str]:
        if kind() == "moto":
            return [sys.executable, "-c", _SERVE_MOTO, HOST, str(self.port)]
        listen = ["--quiet", "--access-log", str(self._requests)]
        listen += ["--port", f"{HOST}:{self.port}", "--region", self.region]
        # Not every file system of temporary folders has extended attributes.
        metadata = [] if _has_attributes(self._objects) else ["--sidecar", str(self._metadata)]
        return [str(VERSITYGW), *listen, "posix", *metadata, str(self._objects)]

    def environment(self) -> dict[str, str]:
        if kind() == "moto":
            return {"PYTHONPATH": str(MOTO), "MOTO_S3_CUSTOM_ENDPOINTS": self.endpoint}
        return {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}

    def is_ready(self) -> bool:
        if not accepts_connections(self.port):
            return False
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        try:
            connection.request("GET", "/")  # unsigned: refused by the one, answered by the other
            return connection.getresponse().status < 500
        except OSError:
            return False
        finally:
            connection.close()

    @property
    def _objects(self) -> Path:
        return self.folder / "objects"

    @property
    def _metadata(self) -> Path:
        return self.folder / "metadata"

    @property
    def _requests(self) -> Path:
        return self.folder / "requests.txt"

    def requests(self) -> list[tuple[str, str]]:
        """What clients asked for so far: operation (``PutObject``) and path; versitygw alone notes it."""
        lines = self._requests.read_text(errors="replace").splitlines() if self._requests.exists() else []
        return [(found[1], found[2]) for line in lines if (found := _REQUEST.search(line))]

    def filesystem(self, **options: Any) -> fs.S3FileSystem:
        """pyarrow's file system of this store; options are those of `S3FileSystem`."""
        return fs.S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            region=self.region,
            endpoint_override=f"{HOST}:{self.port}",
            scheme="http",
            **options,
        )

    def create_bucket(self, name: str | None = None) -> str:
        """Make a bucket; its name (default: one that no other has)."""
        name = name or f"bucket-{uuid.uuid4().hex[:12]}"
        self.filesystem(allow_bucket_creation=True).create_dir(name)
        return name

    def variables(self) -> dict[str, str]:
        """Environment variables by which clients find the store (AWS's tools, pyarrow, delta-rs)."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def storage_options(self) -> dict[str, str]:
        """For delta-rs: where the store is, and to commit by conditional put."""
        return {**self.variables(), "AWS_ALLOW_HTTP": "true", "AWS_CONDITIONAL_PUT": "etag"}

    def uri(self, bucket: str, path: str = "") -> str:
        """An ``s3:`` URI that tells pyarrow all, the keys too."""
        query = {"region": self.region, "scheme": "http", "endpoint_override": f"{HOST}:{self.port}"}
        account = f"{self.access_key}:{quote(self.secret_key, safe='')}"
        return f"s3://{account}@{bucket}/{path}?{urlencode(query)}"


def _has_attributes(folder: Path) -> bool:
    if not hasattr(os, "setxattr"):
        return True
    try:
        os.setxattr(folder, "user.test", b"")
        os.removexattr(folder, "user.test")
    except OSError:
        return False
    return True
