"""The documentation's code runs as it stands, and gives the output that stands beside it.

How a block of README.md or docs/*.md is marked, in the line that opens it:

* ``python run=NAME``: saved as NAME and run as a script. A document's scripts run in one folder, in their order.
* ``python file=NAME``, ``json file=NAME``: saved as NAME and not run; for the consoles.
* ``text output=NAME``: exactly what that script prints on standard output.
* ``console run``: ``$ changelog-engine ...`` commands, and ``$ sed``, with what they print, in the same folder after the
  scripts. Spaces at line ends, empty lines, moments and sizes of files are not compared; the folder is ``/home/ann``.
* ``python`` alone: compiled, not run.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from servers import spark_classes
from support.scripts_in_turn import Done, ScriptsInTurn

from changelog_engine.cli import main

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(?P<mark>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}(?:  +[\d,]+(?=  +\d))?")  # and how many ms it took
_SIZE = re.compile(r"[\d,.]+ (?:bytes|[kM]?B)\b")
_LINK = re.compile(r"\]\((?P<target>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
# What a user's machine has by default takes longer for no more to see. They are options of Java: a folder with a file of
# defaults, SPARK_CONF_DIR, comes first in the class path, and Java passes over an archive of classes made without it.
_SPARK_DEFAULTS = (
    "-Dspark.ui.enabled=false",
    "-Dspark.ui.showConsoleProgress=false",
    "-Dspark.sql.shuffle.partitions=2",
    "-Dspark.databricks.delta.snapshotPartitions=2",
    "-Dspark.sql.codegen.wholeStage=false",
    "-Dspark.sql.codegen.factoryMode=NO_CODEGEN",
)

# These have a process for each script: what a reader tries first, and one that names a folder to Spark by half its path.
_ALONE = ("README.md", "docs/from-transform-with-state.md")


class Block(NamedTuple):
    """One fenced block: its language, its mark without the language, its text."""

    language: str
    mark: str
    body: str


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a document."""
    found = []
    for match in _BLOCK.finditer(document.read_text(encoding="utf-8")):
        language, _, mark = match["mark"].partition(" ")
        found.append(Block(language, mark, match["body"]))
    return found


def name_of(document: Path) -> str:
    """As test ids show it."""
    return str(document.relative_to(ROOT))


def scripts(document: Path) -> dict[str, str]:
    """Name and text of the scripts of a document, in order."""
    return {b.mark.removeprefix("run="): b.body for b in blocks(document) if b.mark.startswith("run=")}


def files(document: Path) -> dict[str, str]:
    """Name and text of the files of a document that are not run."""
    return {b.mark.removeprefix("file="): b.body for b in blocks(document) if b.mark.startswith("file=")}


WITH_SCRIPTS = [document for document in DOCUMENTS if scripts(document) or files(document)]


def tidy(text: str) -> list[str]:
    """Lines as they are compared: without moments and sizes of files, the width of columns and rules, empty lines, and the
    marks of tracebacks, which each version of Python draws in its way."""
    text = _TIME.sub("TIME", _SIZE.sub("SIZE", text))
    lines = (re.sub(" {2,}", "  ", re.sub("─+", "─", line.rstrip())) for line in text.splitlines())
    return [line for line in lines if line.strip("~^ ")]


def console(document: Path) -> Iterator[tuple[str, list[str]]]:
    """Commands of a document's consoles with their output."""
    for block in blocks(document):
        if (block.language, block.mark) == ("console", "run"):
            for piece in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
                command, _, output = piece.partition("\n")
                yield command, tidy(output)


Python = Callable[[list[str], Path], Done]
"""Runs a command line of Python in a folder."""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Of the processes that run scripts."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    options = " ".join((spark_classes.java_options(), *_SPARK_DEFAULTS))
    given = {**spark_classes.for_sessions(), "SPARK_SUBMIT_OPTS": options}
    return {**os.environ, "PYTHONPATH": path, **given, "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[ScriptsInTurn]:
    """One process for many documents."""
    with ScriptsInTurn(tmp_path_factory.mktemp("documents"), environment) as shared:
        yield shared


@pytest.fixture
def python(document: Path, environment: dict[str, str], request: pytest.FixtureRequest) -> Python:
    """As a reader has it, a process for each script; or the one that most documents share."""
    if name_of(document) not in _ALONE:
        shared: ScriptsInTurn = request.getfixturevalue("in_turn")
        return shared.run
    return functools.partial(in_a_process, environment)


def in_a_process(environment: dict[str, str], arguments: list[str], cwd: Path) -> Done:
    """Run a command line of Python in a folder, in a process of its own."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("document", WITH_SCRIPTS, ids=name_of)
def test_scripts_print_what_the_document_shows(
    document: Path,
    python: Python,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    shown = {b.mark.removeprefix("output="): b.body for b in blocks(document) if b.mark.startswith("output=")}
    for name, text in files(document).items():
        (work / name).write_text(text, encoding="utf-8")
    told = ""  # by all scripts so far: a job of the first may have restarted, and the second shows it
    for name, text in scripts(document).items():
        (work / name).write_text(text, encoding="utf-8")
        done = python([name], work)
        told += done.stderr
        assert done.status == 0, told
        if name in shown:
            assert [line.rstrip() for line in done.stdout.splitlines() if line.strip()] == [
                line.rstrip() for line in shown.pop(name).splitlines() if line.strip()
            ], told
    assert not shown, f"output of {sorted(shown)}, which the document doesn't have"
    monkeypatch.chdir(work)
    for command, output in console(document):
        assert tidy(said(command, python, environment, work).replace(str(work), "/home/ann")) == output


def said(command: str, python: Python, environment: dict[str, str], work: Path) -> str:
    """What a command of a console prints; what runs a program does not run in this process, which it would change.

    ``run --job`` gives a name to the one job of its process.
    """
    program, *arguments = shlex.split(command)
    if program == "sed":
        return subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    assert program == "changelog-engine"
    if arguments[0] != "run":
        return CliRunner().invoke(main, arguments).output
    command_line = ["-m", "changelog_engine", *arguments]
    done = (
        in_a_process(environment, command_line, work) if "--job" in arguments else python(command_line, work)
    )
    return done.stdout or done.stderr


def test_the_example_of_the_readme_has_15_lines() -> None:
    example = next(iter(scripts(ROOT / "README.md").values()))
    assert len([line for line in example.splitlines() if line.strip()]) == 15


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_python_compiles(document: Path) -> None:
    for block in blocks(document):
        if block.language == "python":
            compile(block.body, name_of(document), "exec")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_marks_are_known(document: Path) -> None:
    known = re.compile(
        r"(python( (run|file)=\S+\.py)?|text( output=\S+\.py)?|console( run)?|sh|sql|yaml|json( file=\S+\.jsonl)?|)"
    )
    for block in blocks(document):
        mark = f"{block.language} {block.mark}".strip()
        assert known.fullmatch(mark), f"{name_of(document)}: ```{mark}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    for match in _LINK.finditer(_BLOCK.sub("", document.read_text(encoding="utf-8"))):
        target, anchor = match["target"], match["anchor"]
        if "://" in target:
            continue
        path = document.parent / target if target else document
        assert path.exists(), f"{name_of(document)} links to {target}"
        if anchor:
            assert anchor in anchors(path), f"{name_of(document)} links to {target}#{anchor}"


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", _BLOCK.sub("", document.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
