"""Where the database is, and in which portions it is written.

Invariant: the password is in no text that these classes give.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from changelog_engine.config.paths import working_directory

DEFAULT_BATCH_SIZE = 5_000
DEFAULT_BATCH_INTERVAL_MS = 0
DEFAULT_MAX_RETRIES = 3
_SECRET_PARAMETER = re.compile(r"([?&;](?:[\w.]*password|[\w.]*secret|sslkey)=)[^&;]*", re.IGNORECASE)
# Such as //address=(host=h)(password=p), of MySQL.
_SECRET_OF_HOST = re.compile(r"(\([\w.]*password=)[^)]*", re.IGNORECASE)
# Up to the last @ that no parameter has: a password may have a character that should have been written as %2F or %3F.
_SECRET_AUTHORITY = re.compile(r"(//[^/?@:]*:)(?:[^=]*|[^/?]*)@")


@dataclass(frozen=True)
class ConnectionOptions:
    """Where the database is.

    Args:
        url: ``jdbc:postgresql:``, ``jdbc:mysql:``, ``jdbc:mariadb:`` or ``jdbc:sqlite:``.
        driver_name: kept; the URL says which driver it is.
        user: name, or None for the URL's.
        password: of the user, or None for the URL's.
        folder: where the program works, and a relative path of SQLite's begins: workers may work elsewhere.
    """

    url: str = field(repr=False)
    driver_name: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    folder: str = field(default_factory=lambda: working_directory() or "")

    @property
    def shown_url(self) -> str:
        """The URL for people: without secrets."""
        shown = _SECRET_PARAMETER.sub(r"\1***", self.url)
        return _SECRET_AUTHORITY.sub(r"\1***@", _SECRET_OF_HOST.sub(r"\1***", shown))

    @property
    def has_login(self) -> bool:
        """Whether the URL has a user and a password before the host."""
        return _SECRET_AUTHORITY.search(self.url) is not None

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions(url={self.shown_url!r}, driver_name={self.driver_name!r}, user={self.user!r})"


@dataclass(frozen=True)
class ExecutionOptions:
    """In which portions rows are written.

    Args:
        batch_size: how many rows at a time; 0 for no such bound.
        batch_interval_ms: rows wait no longer than this; 0 for no such bound.
        max_retries: how often a transaction is tried again that failed for a reason that may pass.
    """

    batch_size: int = DEFAULT_BATCH_SIZE
    batch_interval_ms: int = DEFAULT_BATCH_INTERVAL_MS
    max_retries: int = DEFAULT_MAX_RETRIES
