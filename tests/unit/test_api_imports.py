"""How the API's modules import each other: never in a circle, and where a module begins."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What an import inside a function is for: it loads something that most programs never use.
LATE = {
    (
        "api.datastream.stream_execution_environment",
        "changelog_engine",
    ): "the launch of a job, which loads Spark",
    ("api.datastream.formats.avro", "fastavro"): "a package that is not everybody's",
    ("api.common.configuration", "yaml"): "a parser, for one kind of value",
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted((ROOT / "api").rglob("*.py"))}


def imports(node: ast.AST, late: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The imports that run, each with whether it stands in a function; those for annotations only do not run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late
        yield from imports(child, late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def targets(module: str, statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules that a statement names."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    above = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
    base = ".".join([*above, *([statement.module] if statement.module else [])])
    for alias in statement.names:
        yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base


def test_no_circle() -> None:
    graph = {
        module: {
            target
            for statement, _ in imports(ast.parse(path.read_text(encoding="utf-8")))
            for target in targets(module, statement)
            if target in MODULES and target != module
        }
        for module, path in MODULES.items()
    }
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)  # or it raises CycleError


def test_imports_stand_where_modules_begin() -> None:
    late = {
        (module, target)
        for module, path in MODULES.items()
        for statement, inside in imports(ast.parse(path.read_text(encoding="utf-8")))
        if inside
        for target in targets(module, statement)
    }
    assert late <= LATE.keys()
