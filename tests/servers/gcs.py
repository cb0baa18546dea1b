"""Google's store, by fake-gcs-server in a program of ours (`gcs_server.go`), which adds the conditional put.

It asks for no login, and keeps its objects in memory.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from pyarrow import fs

from servers.process import CACHE, HOST, Server, ServerMissing, accepts_connections

VERSION = "v1.56.1"
PACKAGE = "github.com/fsouza/fake-gcs-server"
SOURCE = Path(__file__).with_name("gcs_server.go")
PROGRAM = CACHE / f"fake-gcs-server-{VERSION}" / "gcs"


class GcsServer(Server):
    """A store that takes any project.

    Attributes:
        endpoint: Its URL.
    """

    name = "gcs"

    def __init__(self) -> None:
        super().__init__()
        self.endpoint = f"http://{HOST}:{self.port}"

    @classmethod
    def check_installed(cls) -> None:
        if not PROGRAM.is_file():
            raise ServerMissing(f"{PACKAGE} is not here: make servers")

    def prepare(self) -> None:
        pass

    def command(self) -> list[str]:
        return [str(PROGRAM), f"{HOST}:{self.port}"]

    def is_ready(self) -> bool:
        return accepts_connections(self.port)

    @property
    def options(self) -> dict[str, str]:
        """The engine's options that reach it."""
        return {"gs.storage.root.url": self.endpoint, "gs.auth.type": "UNAUTHENTICATED"}

    def filesystem(self) -> fs.GcsFileSystem:
        """pyarrow's file system of this store."""
        place = f"{HOST}:{self.port}"
        return fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=place, project_id="tests")

    def create_bucket(self) -> str:
        """The URI of a new bucket."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.filesystem().create_dir(name)
        return f"gs://{name}"
