"""Whether another driver took the job over while this process stood still: it was stopped, or its machine paused.

Such a process goes on where it was, and is told by its next checkpoint only. Until then it would write what it has in hand
to sinks that write at least once, over what its successor has written since; or, opening a sink, shut its successor out.
"""

from __future__ import annotations

from changelog_engine.clock import monotonic_s
from changelog_engine.connectors.still_ours import ask_by
from changelog_engine.ledger.job_folder import CHANGELOG
from changelog_engine.ledger.ownership import refuse_replaced
from changelog_engine.storage.delta_log import DeltaLog
from changelog_engine.storage.opening import open_storage

_LONG_S = 10.0  # an epoch is shorter, mostly; a look at the log costs what one checkpoint does


class StandingStill:
    """Looks into the log when a subtask did nothing for long. Within ``with``, writers of this thread ask it, too.

    Args:
        folder: where parts go, beside the changelog or in it; None for a job without checkpoints, which nobody takes over.
            Nor a replay, whose folder is its own: there is no changelog.
    """

    def __init__(self, folder: str | None) -> None:
        self._job = None if folder is None else folder.rpartition("/")[0]
        self._seen_s = monotonic_s()
        self.attempt = 0

    def check(self) -> None:
        """Called whenever something is about to be written.

        Raises:
            FencedError: there is a newer attempt.
        """
        now_s = monotonic_s()
        still_s, self._seen_s = now_s - self._seen_s, now_s
        if still_s > _LONG_S and self._job is not None:
            changelog = open_storage(self._job).child(CHANGELOG)
            if DeltaLog.exists(changelog):
                refuse_replaced(changelog, self.attempt, still_s)

    def __enter__(self) -> None:
        self.check()
        ask_by(self.check)

    def __exit__(self, *error: object) -> None:
        ask_by(None)
