"""What JSON's and CSV's schemas make of texts and rows, compared with what those of PyFlink 2.3.0 gave.

format_texts/record.py wrote it down.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from changelog_engine.api.common import Row
from changelog_engine.errors import TypeMismatchError
from changelog_engine.launcher import install_alias, remove_alias

HERE = Path(__file__).parent / "format_texts"
ROOT = Path(__file__).parents[2]
PYFLINK: dict[str, Any] = json.loads((HERE / "pyflink.json").read_text(encoding="utf-8"))
# What texts are here, and where errors are ignored, in place of what PyFlink gives, by words of docs/compatibility.md.
CHANGED = "What Flink changes without a word is an error, or with `ignore_parse_errors()` None"
NULLS = "+I[null, null, null, null]"
DIFFERENCES: dict[str, dict[str, tuple[str, str]]] = {
    CHANGED: {
        '{"i":1.7}': ("RAISES", NULLS),
        '{"d":1e400}': ("RAISES", "null"),
        '{"b":0}': ("RAISES", NULLS),
        '{"b":""}': ("RAISES", NULLS),
        '{"b":[]}': ("RAISES", NULLS),
        '{"i":1} trailing': ("RAISES", "null"),
        '{"f":1e39}': ("RAISES", "+I[null, null, null, null, null, null]"),
        '{"l":1.9}': ("RAISES", "+I[null, null, null, null, null, null]"),
        "1,a,1.5,yes": ("RAISES", "+I[1, a, 1.5, null]"),
        "1,a\nb,1.5,true": ("RAISES", "null"),
    },
    "Times are read in all forms of ISO 8601": {
        '{"d":"20240229"}': ("RAISES", "+I[null, null, null]"),
    },
    "A decimal keeps its digits: 1.50 is not 1.5.": {
        '{"bd":1.50}': ("+I[null, null, null, null, 1.50, null]", "+I[null, null, null, null, 1.50, null]"),
    },
}
# Rows that are refused here where PyFlink's line would be read as another row, by words of the same page.
REFUSED: dict[str, tuple[Row, ...]] = {
    'If an element of an array or row in CSV contains the delimiter of elements (`"a;b"`), this is an error': (
        Row(["a", "b"], Row(1, "x;y")),
    ),
}
EXPECTED = {text: both for texts in DIFFERENCES.values() for text, both in texts.items()}


@pytest.fixture(scope="module")
def cases() -> Iterator[Any]:
    """The cases, with ``pyflink`` meaning the API while they run."""
    install_alias()
    from format_texts import cases

    yield cases
    remove_alias()
    for name in [name for name in sys.modules if name.startswith("format_texts")]:
        del sys.modules[name]


def read(schema: Any, texts: list[str]) -> list[str]:
    """What a schema makes of texts, all at once."""
    try:
        found = schema.deserialize_all([text.encode() for text in texts])
    except ValueError:
        return ["RAISES"] * len(texts)
    return ["null" if row is None else schema.get_produced_type().text(row) for row in found]


def test_reads_what_flink_reads(cases: Any) -> None:
    wrong = []
    for name, (make, texts) in cases.readers().items():
        if PYFLINK[name] == "RAISES":
            with pytest.raises(Exception, match="json_schema"):
                make()
            continue
        schema, ignoring = make(), name.endswith("ignoring")
        for text, expected in zip(texts, PYFLINK[name], strict=True):
            single, *many = read(schema, [text]) + read(schema, [text, text])
            if single != expected and (text not in EXPECTED or single != EXPECTED[text][ignoring]):
                wrong.append((name, text, single, expected))
            assert many == [single, single]
    assert not wrong, "\n".join(map(str, wrong))


def test_writes_what_flink_writes(cases: Any) -> None:
    wrong = []
    refused: list[Row] = []
    for name, (make, kind) in cases.writers().items():
        schema = make()
        for row, expected in zip(cases.ROWS[kind], PYFLINK[name], strict=True):
            try:
                found = schema.serialize(row).decode()
            except TypeMismatchError as error:
                found = str(error)
                if "would be read as" in found and any(row in rows for rows in REFUSED.values()):
                    refused.append(row)
                    continue
            if found != expected:
                wrong.append((name, row, found, expected))
    assert not wrong, "\n".join(map(str, wrong))
    assert all(row in refused for rows in REFUSED.values() for row in rows)


def test_every_case_was_asked_and_every_difference_is_said(cases: Any) -> None:
    assert list(PYFLINK) == [*cases.readers(), *cases.writers()]
    said = " ".join((ROOT / "docs/compatibility.md").read_text(encoding="utf-8").split())
    assert [words for words in (*DIFFERENCES, *REFUSED) if words not in said] == []
