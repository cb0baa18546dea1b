"""The payments of the demo, made up by a seed, and what a plain loop makes of them.

The loop shares nothing with the job (``scripts/payments.py``) but the file and the limit.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

LIMIT_CENTS = 100_000
LINE_BYTES = 34  # of every line, so a position in the file is a number of payments
_SEED = 20_260_131
_FIRST_MS = 1_769_846_400_000  # 2026-01-31 08:00 UTC
_STEP_MS = 90


@dataclass
class AccountCount:
    """What a plain loop knows of an account; the fields are the job's states.

    Args:
        blocked_by: number of the payment with which the total passed the limit; None: it did not.
    """

    payments: int = 0
    total: int = 0
    blocked_by: int | None = None


def write_payments(path: Path, payments: int, accounts: int) -> None:
    """Make the file that the job reads, of payments of this many accounts."""
    chance = random.Random(_SEED)
    with path.open("w", encoding="ascii", newline="\n") as file:
        for number in range(payments):
            account, cents = chance.randrange(accounts), chance.randrange(100, 20_000)
            file.write(f"{_FIRST_MS + number * _STEP_MS},{number:06d},A{account:05d},{cents:05d}\n")


def count_payments(path: Path) -> dict[str, AccountCount]:
    """What the file's payments come to, by account: one loop, no state but a dict."""
    accounts: dict[str, AccountCount] = {}
    with path.open(encoding="ascii") as file:
        for line in file:
            _, number, name, cents = line.split(",")
            account = accounts.setdefault(name, AccountCount())
            account.payments += 1
            account.total += int(cents)
            if account.total > LIMIT_CENTS and account.blocked_by is None:
                account.blocked_by = int(number)
    return accounts
