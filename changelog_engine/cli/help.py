"""``changelog-engine help``: the documentation's pages as text, where there is no browser. It only reads."""

from __future__ import annotations

from pathlib import Path

import click

import changelog_engine
from changelog_engine.nearest import did_you_mean

_OWN = Path(changelog_engine.__file__).parent
# In a wheel the pages lie in the package, in a checkout beside it.
_FOLDERS = (_OWN / "pages", _OWN.parent / "docs")


def pages() -> dict[str, Path]:
    """The pages by name, such as ``runbook`` and ``connectors/kafka``; empty where they were not installed."""
    for folder in _FOLDERS:
        if (folder / "runbook.md").is_file():
            found = [*folder.glob("*.md"), *folder.glob("connectors/*.md")]
            return {each.relative_to(folder).with_suffix("").as_posix(): each for each in sorted(found)}
    return {}


@click.command()
@click.argument("page", required=False)
@click.argument("words", required=False)
def help(page: str | None, words: str | None) -> None:
    """Print a page of the documentation; without PAGE, the names of all.

    PAGE is a name such as runbook, or as messages write it: docs/runbook.md. With WORDS only the sections whose headings
    have them are printed, or, where no heading does, the lines and rows of tables that have them.
    """
    known = pages()
    if not known:
        raise click.ClickException("the pages were not installed with this package: see docs/ in its sources")
    if page is None:
        click.echo("\n".join(f"{name:32}{_title(place)}" for name, place in known.items()))
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in known:
        meant = did_you_mean(name, known)
        raise click.ClickException(
            f"there is no page {name!r}{meant or '.'} `changelog-engine help` lists all of them"
        )
    text = known[name].read_text(encoding="utf-8")
    if words is not None:
        text = _sections(text, words) or _lines(text, words)
        if not text:
            raise click.ClickException(
                f"nothing on the page {name} has {words!r}. `changelog-engine help {name}` prints all of it"
            )
    click.echo(text, nl=False)


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()


def _sections(text: str, words: str) -> str:
    """The sections whose headings have these words, each with those below it."""
    found: list[str] = []
    depth = 0  # of the heading under which lines are taken; 0 for none
    fenced = False
    for line in text.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        level = 0 if fenced else len(line) - len(line.lstrip("#"))
        if level and (not depth or level <= depth):
            depth = level if words.lower() in line.lower() else 0
        if depth:
            found.append(line)
    return "".join(found)


def _lines(text: str, words: str) -> str:
    """The lines that have these words, below their headings; rows of a table below the names of its columns."""
    found: list[str] = []
    above: list[str] = []  # what is to be printed before the next line: a heading, and the head of a table
    fenced = False
    lines = text.splitlines(keepends=True)
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        fenced ^= line.startswith("```")
        if not fenced and line.startswith("#"):
            above = [line, "\n"]
        elif following.startswith(("|---", "|:--")):
            above += [line, following]
        elif words.lower() in line.lower():
            found += [*(["\n"] if found and above else []), *above, line]
            above = []
        elif line == "\n" and above[-1:] and above[-1].startswith("|"):
            del above[-2:]  # the table has ended
    return "".join(found)
