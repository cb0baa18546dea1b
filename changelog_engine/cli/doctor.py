"""``changelog-engine doctor``: what is wrong with this machine, and how to mend it. It changes nothing."""

from __future__ import annotations

import click

from changelog_engine.cli.options import PATH
from changelog_engine.cli.shown import Answer, shows
from changelog_engine.config.paths import local_path
from changelog_engine.display import Grid, printable
from changelog_engine.inspection.doctor import WRONG, examine
from changelog_engine.launcher.standard_streams import tell


@click.command()
@click.argument("base", type=PATH, required=False)
@shows
def doctor(base: str | None) -> Answer:
    """Check whether jobs can run here: Java, Python, packages, disks, a foreign `api`, and the base path BASE.

    The exit status is 1 when something is wrong.
    """
    if base is not None and local_path(base) is None:
        tell(f"asking {printable(base)}: where there is no login, or no network, an answer takes minutes")
    found = examine(base)
    rows = [(check.level, check.what, check.found) for check in found]
    notes = [f"{check.what}: {check.remedy}" for check in found if check.remedy]
    wrong = sum(check.level == WRONG for check in found)
    notes.append("nothing is wrong" if not wrong else f"{wrong} to be mended")
    return Answer(found, [Grid(("", "what", "found"), rows)], notes=notes, status=int(wrong > 0))
