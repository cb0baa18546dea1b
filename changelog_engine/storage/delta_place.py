"""By what delta-rs opens a table."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from changelog_engine.errors import ConfigurationError
from changelog_engine.storage.file_systems import public_uri
from changelog_engine.storage.protocol import Storage

# It follows links, decodes names once more than others do, takes a backslash for a slash, and refuses control characters.
_DECODED = re.compile(r"%[0-9A-Fa-f]{2}")
_OTHERWISE_ON_DISK = re.compile(rf"{_DECODED.pattern}|[\\\x00-\x1f\x7f]")


def delta_place(storage: Storage) -> str:
    """The root of a table for delta-rs.

    Raises:
        ConfigurationError: delta-rs would look for the table in another folder, and may find one there.
    """
    if storage.local is None:
        place = unquote(public_uri(storage.root))
        found = _DECODED.search(place)
    else:
        place = os.path.realpath(storage.local)
        found = _OTHERWISE_ON_DISK.search(place)
    if found is not None:
        raise ConfigurationError(
            f"{place!r} cannot hold a Delta table: the library that reads Delta tables takes {found[0]!r} in a path for "
            "something else, and would look in another folder. Name the folder otherwise, or choose another"
        )
    return storage.root
