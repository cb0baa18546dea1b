"""What means something else in Spark's workers than in the script, by the names of Python's own."""

from __future__ import annotations

_ARGUMENTS = (
    "sys.argv",
    "argparse.ArgumentParser().parse_args()",
    "argparse.ArgumentParser().parse_known_args()",
)
_EXITS = ("sys.exit()", "exit()", "quit()")
_SECTION = "; docs/compatibility.md, Programs"


def in_worker(name: str) -> str | None:
    """What to know of a name that a function uses which runs in workers; None for most.

    Args:
        name: such as ``sys.argv``; of calls with parentheses.
    """
    where = f"{_shown(name)} in a function that runs in workers"
    if name in _ARGUMENTS:
        return (
            f"{where} has the worker's own command line, not the script's: read it outside, and keep what you need in a "
            f"variable{_SECTION}"
        )
    if name in _EXITS:
        return (
            f"{where} fails the job, and in Flink it ends the worker process; raise an exception that says why; "
            "docs/compatibility.md, Elements"
        )
    return None


def when_imported(name: str) -> str | None:
    """What to know of a name that a module beside the script uses when it is imported; None for most."""
    if name in _ARGUMENTS:
        return (
            f"{_shown(name)} when this module is imported: workers import it too, and there it has their own command line; "
            f"read it in the script{_SECTION}"
        )
    return None


def _shown(name: str) -> str:
    return name.replace("argparse.ArgumentParser()", "ArgumentParser")
