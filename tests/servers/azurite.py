"""Azure's blobs, by Azurite, the emulator of Azure's own makers: an account without folders (no hierarchical namespace)."""

from __future__ import annotations

import uuid

from pyarrow import fs

from servers.process import CACHE, HOST, Server, ServerMissing, accepts_connections, require_program

PACKAGE = "azurite@3.35.0"
FOLDER = CACHE / PACKAGE.replace("@", "-")
_PROGRAM = FOLDER / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


class AzuriteServer(Server):
    """A store with one account.

    Attributes:
        account: Its name.
        key: Its key, which anybody knows.
        endpoint: Its URL.
    """

    name = "azurite"
    account = "devstoreaccount1"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self) -> None:
        super().__init__()
        self.endpoint = f"http://{HOST}:{self.port}"

    @classmethod
    def check_installed(cls) -> None:
        require_program("node", package="nodejs")
        if not FOLDER.is_dir():
            raise ServerMissing(f"{PACKAGE} is not here: make servers")

    def prepare(self) -> None:
        (self.folder / "data").mkdir()

    def command(self) -> list[str]:
        listen = ["--blobHost", HOST, "--blobPort", str(self.port), "--location", str(self.folder / "data")]
        # Clients ask for newer versions of the interface than it knows.
        plain = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        return [require_program("node", package="nodejs"), str(_PROGRAM), *listen, *plain]

    def is_ready(self) -> bool:
        return accepts_connections(self.port)

    @property
    def options(self) -> dict[str, str]:
        """The engine's options that reach it."""
        return {
            "fs.azure.abfs.endpoint": self.endpoint,
            f"fs.azure.account.key.{self.account}.dfs.core.windows.net": self.key,
        }

    def filesystem(self) -> fs.AzureFileSystem:
        """pyarrow's file system of this store."""
        place = {f"{name}_storage_authority": f"{HOST}:{self.port}" for name in ("blob", "dfs")}
        plain = {f"{name}_storage_scheme": "http" for name in ("blob", "dfs")}
        return fs.AzureFileSystem(account_name=self.account, account_key=self.key, **place, **plain)

    def create_bucket(self) -> str:
        """The URI of a new container."""
        name = f"container-{uuid.uuid4().hex[:12]}"
        self.filesystem().create_dir(name)
        return f"abfs://{name}@{self.account}.dfs.core.windows.net"
