"""What was deleted before the job read it: an error, or a warning where a property says to go on without it."""

from __future__ import annotations

import logging

from changelog_engine.connectors.properties import Properties
from changelog_engine.errors import RefusedForGoodError

log = logging.getLogger("changelog_engine")

_NAME = "changelog.on-data-loss"


class DataLoss:
    """What a property says of it.

    Raises:
        ConfigurationError: the property has another value than fail and ignore.
    """

    def __init__(self, properties: Properties) -> None:
        self._fails = properties.choice(_NAME, ("fail", "ignore"), "fail") == "fail"
        self._noun = properties.noun

    def found(self, what: str) -> None:
        """Something was deleted: ``what`` names the server, and what the job has not read, in a sentence without its end.

        Raises:
            RefusedForGoodError: the job is not to go on without it.
        """
        error = RefusedForGoodError(
            f"{what}. Start the job anew, or set {self._noun} {_NAME!r} to ignore to go on with what is there"
        )
        if self._fails:
            raise error
        log.warning("%s", error)
