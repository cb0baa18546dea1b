"""By what delta-rs opens a table."""

from __future__ import annotations

import os
import re

from changelog_engine.errors import ConfigurationError
from changelog_engine.storage.protocol import Storage

# It follows links, takes %20 for a space and a backslash for a slash, and control characters for errors.
_OTHERWISE = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")


def delta_place(storage: Storage) -> str:
    """The root of a table for delta-rs.

    Raises:
        ConfigurationError: delta-rs would look for the table in another folder, and may find one there.
    """
    if storage.local is not None:
        real = os.path.realpath(storage.local)
        if (found := _OTHERWISE.search(real)) is not None:
            raise ConfigurationError(
                f"{real!r} cannot hold a Delta table: the library that reads Delta tables takes {found[0]!r} in a path for "
                "something else, and would look in another folder. Name the folder otherwise, or choose another"
            )
    return storage.root
