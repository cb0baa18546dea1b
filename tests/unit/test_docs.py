"""Pages that are made from the code agree with it. ``python tests/unit/test_docs.py`` makes them anew."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from api._kept_settings import KEPT
from api._reexports import ROW_SCHEMAS, names_not_here
from changelog_engine.changelog import rows
from changelog_engine.changelog.model import Attempt, Checkpoint
from changelog_engine.config import OPTIONS, Option
from changelog_engine.config.option import ChoiceOption
from changelog_engine.observing.prometheus import ENGINE_METRICS, PREFIX
from changelog_engine.state import mutation_log

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MODULES = (
    "api.datastream",
    "api.datastream.state",
    "api.datastream.connectors",
    "api.datastream.connectors.elasticsearch",
    "api.datastream.connectors.file_system",
    "api.datastream.connectors.hybrid_source",
    "api.datastream.connectors.kinesis",
    "api.datastream.connectors.number_seq",
    "api.datastream.connectors.pulsar",
    "api.datastream.connectors.rabbitmq",
    "api.datastream.connectors.cassandra",
    "api.common",
    "api.common.watermark_strategy",
    "api.common.typeinfo",
    "api.metrics",
)
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def options_table() -> str:
    """The registry of options as a table."""
    lines = ["| key (older name) | kind | default | meaning |", "|---|---|---|---|"]
    for option in OPTIONS:
        keys = f"`{option.key}`" + "".join(f" (`{name}`)" for name in option.older)
        choices = option.choices.values() if isinstance(option, ChoiceOption) else ()
        kind = ", ".join(f"`{name}`" for name in dict.fromkeys(choices)) or option.kind
        lines.append(f"| {keys} | {kind} | {_default(option)} | {option.doc} |")
    return "\n".join(lines)


def _default(option: Option) -> str:
    value = option.default
    if value is None or value == {}:
        return "-"
    if option.kind == "bool":
        return f"`{str(value).lower()}`"
    if option.kind == "memory":
        return f"`{value >> 20} mb`" if value >= 1 << 20 or not value else f"`{value >> 10} kb`"
    if option.kind == "duration":
        fitting = (f"{value // ms} {unit}" for ms, unit in _UNITS if value and value % ms == 0)
        return f"`{next(fitting, f'{value} ms')}`"
    return f"`{value}`"


def names_table() -> str:
    """Public names by module: what is there, and names of PyFlink that are not."""
    tables = []
    listed: set[Any] = set()
    for name in MODULES:
        module = importlib.import_module(name)
        lines = []
        for public in _public(module):
            found = getattr(module, public)
            if found in listed:
                continue
            listed.add(found)
            there = ", ".join(f"`{method}`" for method in _methods(found)) or "-"
            missing = ", ".join(f"`{method}`" for method in _not_here(found)) or "-"
            lines.append(f"| `{public}` | {there} | {missing} |")
        missing = ", ".join(f"`{each}`" for each in sorted(names_not_here(name)))
        tables.append(f"### {name}\n")
        if lines:
            tables.append(
                "\n".join(["| name | methods and constants | not there |", "|---|---|---|", *lines]) + "\n"
            )
        if missing:
            tables.append(f"Not there: {missing}.\n")
    return "\n".join(tables).rstrip()


def _public(module: ModuleType) -> list[str]:
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return sorted(declared)
    own = (
        n
        for n, found in vars(module).items()
        if inspect.isclass(found) and found.__module__ == module.__name__
    )
    return sorted(name for name in own if not name.startswith("_"))


def _methods(found: Any) -> list[str]:
    """Public methods and members of a class, those of its bases in the API or engine included."""
    if not inspect.isclass(found):
        return []
    ours = [base for base in found.__mro__ if base.__module__.split(".")[0] in ("api", "changelog_engine")]
    names = {
        name for base in ours for name in vars(base) if not name.startswith("_") and hasattr(found, name)
    }
    return sorted(name for name in names if not inspect.isclass(getattr(found, name, None)))


def _not_here(found: Any) -> list[str]:
    if not inspect.isclass(found):
        return []
    return sorted({name for base in found.__mro__ for name in base.__dict__.get("_not_here", ())})


def kept_table() -> str:
    """The settings that are kept without effect."""
    lines = ["| class | setting | what it does in PyFlink | why it does nothing here |", "|---|---|---|---|"]
    for row in KEPT:
        names = ", ".join(f"`{name}`" for name in row.names)
        lines.append(f"| `{row.owner}` | {names} | {row.in_flink} | {row.why} |")
    return "\n".join(lines)


def metrics_table() -> str:
    """The engine's metrics as a table."""
    lines = ["| metric | type | |", "|---|---|---|"]
    for name, (kind, doc) in ENGINE_METRICS.items():
        shown = f"{PREFIX}{name}{'_total' if kind == 'counter' else ''}"
        lines.append(f"| `{shown}` | {kind} | {doc} |")
    return "\n".join(lines)


def kept_options() -> str:
    """The options of settings that are kept without effect."""
    lines = ["| key | why it does nothing here |", "|---|---|"]
    for row in KEPT:
        if row.options:
            keys = ", ".join(f"`{option.key}`" for option in row.options)
            lines.append(f"| {keys} | {row.why} |")
    return "\n".join(lines)


PAGES: dict[tuple[str, str], Callable[[], str]] = {
    ("configuration.md", "kept"): kept_options,
    ("names.md", "kept"): kept_table,
    ("configuration.md", "options"): options_table,
    ("observing.md", "metrics"): metrics_table,
    ("names.md", "names"): names_table,
}


def renewed(page: str, mark: str, text: str) -> str:
    """The page with the text between its marks."""
    document = (DOCS / page).read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)", re.DOTALL)
    assert pattern.search(document), f"{page} has no marks of {mark}"
    return pattern.sub(lambda found: f"{found[1]}{text}\n{found[2]}", document)


@pytest.mark.parametrize(("page", "mark"), PAGES, ids=lambda part: part)
def test_pages_agree_with_the_code(page: str, mark: str) -> None:
    made = renewed(page, mark, PAGES[page, mark]())
    assert (DOCS / page).read_text(encoding="utf-8") == made, "run: python tests/unit/test_docs.py"


def keys_in(text: str) -> Iterator[str]:
    """What looks like an option's key."""
    prefixes = "changelog|state|execution|restart-strategy|parallelism|pipeline|python"
    yield from re.findall(rf"`((?:{prefixes})\.[a-z.-]+[a-z])`", text)


@pytest.mark.parametrize("page", ["README.md", "docs/configuration.md"])
def test_options_that_pages_name_exist(page: str) -> None:
    known = {name for option in OPTIONS for name in (option.key, *option.older)}
    outside = {"changelog.format.version", "changelog.job.name"}
    found = set(keys_in((ROOT / page).read_text(encoding="utf-8")))
    assert found
    assert found <= known | outside


def test_the_table_format_names_every_column_operation_and_field() -> None:
    page = (DOCS / "table-format.md").read_text(encoding="utf-8")
    constants = [*vars(rows).items(), *vars(mutation_log).items()]
    operations = {value for name, value in constants if name.isupper() and isinstance(value, str)}
    fields = {field.name for row in (Checkpoint, Attempt) for field in dataclasses.fields(row)}
    named = set(re.findall(r"`(\w+)`", page))
    assert {*rows.SCHEMA.names, *operations, *fields} <= named


def test_case_59_the_layers_are_those_of_the_linter() -> None:
    """The architecture's list of layers is the linter's, in its order."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ][0]
    layers = [layer.strip("()").removeprefix("changelog_engine.") for layer in contract["layers"]]
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    listed = re.search(r"down only \((.*?)\);", page, re.DOTALL)
    assert listed is not None
    named = re.findall(r"`([\w.]+)`", listed[1])
    assert [name.removeprefix("changelog_engine.") for name in named if name != "changelog_engine"] == [
        "api", "cli", *layers[2:]
    ]  # fmt: skip


def test_case_59_no_setting_is_both_of_effect_and_without() -> None:
    """What the page on compatibility says of a limit, a sink or a schema stands there once."""
    differences = (DOCS / "compatibility.md").read_text(encoding="utf-8")
    without, mark, names = (DOCS / "names.md").read_text(encoding="utf-8").partition("<!-- names -->")
    assert mark
    assert "JobManagerCheckpointStorage" not in without  # its max_state_size has an effect
    assert "is not checked" not in differences  # types of restored states are
    for name in (*" ".join(ROW_SCHEMAS.values()).split(), "FileSink", "DeltaSink"):
        assert not re.search(rf"^Not there:.*`{name}`", names, re.MULTILINE)


def test_case_59_the_columns_in_use_are_said_to_be() -> None:
    page = (DOCS / "table-format.md").read_text(encoding="utf-8")
    for column in rows.SCHEMA.names:
        (line,) = re.findall(rf"^\| `{column}` \|.*$", page, re.MULTILINE)
        assert "in this version" not in line


def test_every_decision_is_listed() -> None:
    index = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    numbers = sorted(path.name for path in (DOCS / "decisions").glob("[0-9]*.md"))
    assert [name[:4] for name in numbers] == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    assert all(f"]({name})" in index for name in numbers)


def test_every_page_has_its_place_on_the_site() -> None:
    """A page that nobody finds is none. (`make docs` fails for it too, but later.)"""
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", site, re.MULTILINE)
    pages = ["readme.md", *(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))]
    assert sorted(listed) == sorted(pages)


def test_the_first_page_shows_its_example() -> None:
    example = (DOCS / "examples" / "payments" / "payments.py").read_text(encoding="utf-8")
    assert f"```python run=payments.py\n{example}```" in (DOCS / "index.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    for (page, mark), make in PAGES.items():
        (DOCS / page).write_text(renewed(page, mark, make()), encoding="utf-8")
