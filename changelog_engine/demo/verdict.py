"""Whether the job's state is what a plain loop counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass

from changelog_engine.demo.payments import AccountCount
from changelog_engine.inspection.states import entries_at

_FIELDS = {"payments": "payments", "total": "total", "blocked by": "blocked_by"}  # by state


@dataclass(frozen=True)
class Verdict:
    """A comparison of all accounts."""

    accounts: int
    lost: int  # payments that the loop counted and the job did not
    doubled: int  # payments that the job counted too often
    wrong: tuple[str, ...]  # a line for each account of which anything differs

    @property
    def exact(self) -> bool:
        """Whether nothing differs."""
        return not (self.lost or self.doubled or self.wrong)


def accounts_of(job: str) -> dict[str, AccountCount]:
    """The state of the job at its newest checkpoint, folded from its log.

    Raises:
        RestoreError: there is no checkpoint.
        CorruptChangelogError: a file is missing or damaged.
    """
    found: dict[str, AccountCount] = {}
    for entry in entries_at(job, operator="accounts").entries:
        if entry.state in _FIELDS:
            setattr(found.setdefault(entry.key, AccountCount()), _FIELDS[entry.state], entry.value)
    return found


def compare(expected: Mapping[str, AccountCount], found: Mapping[str, AccountCount]) -> Verdict:
    """Compare what the job has with what it should have.

    Example:
        >>> compare({"A1": AccountCount(3, 900)}, {"A1": AccountCount(2, 600)}).lost
        1
    """
    lost = doubled = 0
    wrong = []
    for name in sorted({*expected, *found}):
        wanted, got = expected.get(name, AccountCount()), found.get(name, AccountCount())
        lost += max(0, wanted.payments - got.payments)
        doubled += max(0, got.payments - wanted.payments)
        if wanted != got:
            wrong.append(
                f"{name}: payments, total, blocked by are {astuple(got)} instead of {astuple(wanted)}"
            )
    return Verdict(len({*expected, *found}), lost, doubled, tuple(wrong))
