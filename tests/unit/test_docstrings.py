"""Docstrings of the API say more than the signature does: a section that only repeats it is left out."""

from __future__ import annotations

import ast
import functools
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "api").rglob("*.py"))
ALL_MODULES = [
    *MODULES,
    *(path for top in ("changelog_engine", "materializer") for path in (ROOT / top).rglob("*.py")),
]
HEADING = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Source):(.*)$")
ECHOED_RESULT = re.compile(
    r"(this (object|descriptor|builder)|the (new |keyed )?stream( of( the)? results)?|the windows|the sink)\.?",
    re.IGNORECASE,
)
_NO_SUCH = r"(it is )?(no|not an?|no such|another|something) [\w`.]+( or ([a-z]+ )?[\w`.]+)?"
_NUMBER = r"(no|not a) (whole )?number( (of at least|above|below|from) -?\d+( on)?)?"
ECHOED_ERROR = re.compile(
    r"(an argument( or a property)? (that cannot be used|of another type)"
    r"|(an argument|key or value|a name or value) (is|are) (no|not an?) \w+"
    r"|not a str(, or an? empty( one)?)?|not one character|(a number )?out of range|(a number )?below \d+"
    r"|(it is )?(neither|none|not)|it isn't|an unusable name(, function)? or type"
    rf"|{_NUMBER}(, or below -?\d+)?|{_NO_SUCH}(, or (a negative one|an empty one|not positive|{_NUMBER}))?)\.?"
)

# What makes four words or fewer worth a line: a unit, a bound, an order, a state, another place to look.
TELLING = re.compile(
    r"""[^\w\s.,']|[A-Z]{2}|\d|\b(None|no|not|without|any|all|each|both|only|other|own|uid|ms|s|cents|pixels|bytes?|\w*seconds
    |typed|live|held|open|empty|sorted|verified|durable|complete|absolute|settled|inclusive|monotonic|ascending|order
    |relative|newest|oldest|first|last|largest|smallest|before|after|least|most|messages?|errors|tests|likewise|further|read
    |key\ groups|or|and|as|by|one|see)\b""",
    re.VERBOSE,
)
# A reason that is no more than the summary with another verb: "it failed", "it could not be written".
NO_REASON = re.compile(
    r"(it|they|one|nothing) (is|are|isn't|is not|do|does|did|fails|failed|has failed|is neither)"
    r"|(it|they|one|nothing) is (not )?(one|there|installed)"
    r"|(it|they|one|the folder|the file) (cannot|can't|could not) be "
    r"(used|had|written|read|reached|deleted|made|opened|sent)"
    r"|that|see above|there is one|another number|not one|an? \w+ that cannot be used"
)
USERS_READ = (
    *("windowing/", "types/", "testing/", "errors.py", "config/option", "connectors/protocols.py"),
    *("state/backend.py", "state/timer_table.py", "state/identity_bytes.py", "state/entry_bytes.py"),
    *("connectors/pulsar/reader.py", "corrections/repair.py", "history/history.py", "history/registering.py"),
)

_SMALL = {"a", "an", "the", "of", "it", "which", "whether", "what", "that"}  # without plurals: "its" too


@functools.cache
def parsed(path: Path) -> ast.Module:
    """A module of the engine's."""
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The docstrings of a module, each with what it is of."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found = ast.get_docstring(node)
            if found:
                yield getattr(node, "name", "the module"), found


def sections(docstring: str) -> Iterator[tuple[str, list[str]]]:
    """The sections of a docstring, each with its entries, which are one line each."""
    name, entries = "", []
    for line in docstring.splitlines():
        heading = HEADING.match(line)
        if heading:
            yield name, entries
            name, entries = heading[1], [heading[2].strip()] if heading[2].strip() else []
        elif line.startswith("     ") and entries and name != "Example":
            entries[-1] += " " + line.strip()
        elif line.strip():
            entries.append(line.strip())
    yield name, entries


def echoes(docstring: str) -> Iterator[str]:
    """What a docstring says and its signature says too."""
    if re.fullmatch(r"See [\w`. ]+", docstring):
        yield docstring
    if "Returns this object" in docstring:
        yield "Returns this object"
    for name, entries in sections(docstring):
        if name in ("Returns", "Yields") and ECHOED_RESULT.fullmatch(" ".join(entries)):
            yield f"{name}: {entries[0]}"
        if name == "Raises":
            for entry in entries:
                error, _, why = entry.partition(": ")
                if error in ("ConfigurationError", "ArgumentTypeError") and ECHOED_ERROR.fullmatch(why):
                    yield f"Raises: {entry}"


def echoed_source(docstring: str, name: str) -> Iterator[str]:
    """The source of a class or module when it is the path that it is imported from here."""
    said = re.search(rf"^Source: pyflink\.((?:\S+\.)?{name})$", docstring, re.MULTILINE)
    if said:
        try:
            pkgutil.resolve_name(f"api.{said[1]}")
        except (ImportError, AttributeError):
            return
        yield said[0]


def words(text: str) -> set[str]:
    """The words in names and prose, without plurals."""
    return {word.lower().rstrip("s") for word in re.findall(r"[A-Z]?[a-z]+|\d+", text)}


def echoed_arguments(node: ast.AST) -> Iterator[str]:
    """The arguments of which a docstring says no more than the names, the types and its own first sentence do."""
    docstring = ast.get_docstring(node) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else None
    if docstring is None or not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return
    arguments = node.args.args if isinstance(node, ast.FunctionDef) else []
    types = {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation}
    summary = docstring.partition("\n\n")[0]
    for name, entries in sections(docstring):
        for entry in entries if name == "Args" else []:
            argument, _, said = entry.partition(": ")
            known = words(f"{node.name} {argument} {types.get(argument, '')} {summary}") | _SMALL
            if words(said) <= known and not re.search(r"[^\w\s.,']|[A-Z]{2}|\d", said):
                yield f"{node.name}: {entry}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_section_repeats_the_signature(path: Path) -> None:
    tree = parsed(path)
    found = [
        f"{name}: {echo}"
        for name, docstring in docstrings(tree)
        for echo in (
            *echoes(docstring),
            *echoed_source(docstring, path.stem if name == "the module" else name),
        )
    ]
    assert not found, "leave it out"


def test_no_argument_is_told_twice() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {echo}"
        for path in ALL_MODULES
        for node in ast.walk(parsed(path))
        for echo in echoed_arguments(node)
    ]
    assert not found, "leave it out"


def says_little(entry: str) -> bool:
    """Whether what is said of an argument is a phrase such as ``its name``, ``of the job`` or ``how many``."""
    said = entry.partition(": ")[2]
    return len(said.split()) <= 4 and not TELLING.search(said)


def test_no_line_of_a_section_of_the_engine_says_little() -> None:
    found = []
    for path in ALL_MODULES[len(MODULES) :]:
        place = str(path.relative_to(ROOT))
        if not place.removeprefix("changelog_engine/").startswith(USERS_READ):
            tree = parsed(path)
            entries = [
                (name, entry)
                for _, text in docstrings(tree)
                for name, some in sections(text)
                for entry in some
            ]
            found += [f"{place}: {entry}" for name, entry in entries if name == "Args" and says_little(entry)]
            found += [
                f"{place}: {entry}"
                for name, entry in entries
                if name == "Raises" and NO_REASON.fullmatch(entry.partition(": ")[2].rstrip("."))
            ]
    assert not found, "leave it out, or say what the name does not"


@pytest.mark.parametrize(
    ("docstring", "count"),
    [
        ("See MapFunction.", 1),
        (
            "Set it.\n\nReturns:\n    This object.\n\nRaises:\n    ConfigurationError: no whole number from 0 on.",
            2,
        ),
        (
            "Set it.\n\nRaises:\n    ConfigurationError: no Duration, or a negative one.\n\nSource: pyflink.X",
            1,
        ),
        ("Set it. Returns this object.", 1),
        ("Set it.\n\nRaises:\n    ConfigurationError: a path that is relative\n        or not local.", 0),
        ("Set it.\n\nReturns:\n    The new stream, of the same type.", 0),
    ],
)
def test_what_is_an_echo(docstring: str, count: int) -> None:
    assert len(list(echoes(docstring))) == count


@pytest.mark.parametrize(
    ("said", "count"), [("the class.", 1), ("its class.", 1), ("the class, as a path.", 0)]
)
def test_what_is_an_echo_of_arguments(said: str, count: int) -> None:
    code = f'def set_it(type_class_name: str) -> None:\n    """Set.\n\n    Args:\n        type_class_name: {said}\n    """'
    assert len(list(echoed_arguments(ast.parse(code).body[0]))) == count
