"""The examples of docs/connectors/own.md are the files they name, and keep the promises of their base classes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from changelog_engine.testing.conformance import check_committing_sink, check_sink, check_source

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "connectors"))
from folder_sink import FolderSink
from lines_source import LinesSource
from log_sink import LogSink

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples" / "connectors"


@pytest.mark.parametrize("name", ["lines_source.py", "log_sink.py", "folder_sink.py"])
def test_the_page_shows_the_files(name: str) -> None:
    page = (DOCS / "connectors" / "own.md").read_text()
    assert f"<!-- {name} -->\n```python\n{(EXAMPLES / name).read_text()}```\n" in page


def test_the_source(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(100)))
    (tmp_path / "b.txt").write_text("ä\n\nno end")
    (tmp_path / "c.txt").write_text("")
    check_source(LinesSource(str(tmp_path)), [*map(str, range(100)), "ä", "", "no end"])


def test_the_sink(tmp_path: Path) -> None:
    def visible() -> list[str]:
        return [line for file in tmp_path.glob("*.log") for line in file.read_text().splitlines()]

    check_sink(LogSink(str(tmp_path)), visible, runs=50)


def test_the_committing_sink(tmp_path: Path) -> None:
    def visible() -> list[str]:
        return [line for file in tmp_path.glob("[!.]*") for line in file.read_text().splitlines()]

    check_committing_sink(FolderSink(str(tmp_path)), visible, runs=50)


def test_a_source_that_forgets_is_found_out(tmp_path: Path) -> None:
    class Forgetful(LinesSource):
        def reader(self, split):  # type: ignore[no-untyped-def]
            reader = super().reader(split)
            read = reader.read
            reader.read = lambda position, most: read(reader.file.tell(), most)
            return reader

    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n")
    sys.modules[__name__].Forgetful = Forgetful  # type: ignore[attr-defined]
    Forgetful.__qualname__ = "Forgetful"
    with pytest.raises(AssertionError, match="something else when it is read again"):
        check_source(Forgetful(str(tmp_path)))
