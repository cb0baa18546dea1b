"""Every package's __init__ only re-exports: __all__ is complete, sorted, and can be imported."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from api._reexports import elsewhere

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(
    path.parent.relative_to(ROOT)
    for package in ("api", "changelog_engine", "materializer")
    for path in (ROOT / package).rglob("__init__.py")
)


def imported_names(tree: ast.Module) -> set[str]:
    """Public names that the module imports from others; submodules and private ones left out."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names |= {alias.asname or alias.name for alias in node.names}
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("folder", PACKAGES, ids=str)
def test_init_only_reexports(folder: Path) -> None:
    tree = ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))
    defined = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert not defined, f"{folder}/__init__.py defines {[node.name for node in defined]}; move it to a module"


@pytest.mark.parametrize("folder", PACKAGES, ids=str)
def test_all_is_complete_sorted_and_importable(folder: Path) -> None:
    tree = ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))
    module = importlib.import_module(".".join(folder.parts))
    exported = list(getattr(module, "__all__", []))
    assert exported == sorted(exported)
    assert len(exported) == len(set(exported))
    for name in exported:
        assert hasattr(module, name), name
    assert imported_names(tree) <= set(exported)


def test_the_package_has_its_errors_although_importing_it_loads_none() -> None:
    program = (
        "import changelog_engine, sys; assert 'changelog_engine.errors' not in sys.modules; "
        "from changelog_engine import errors; assert changelog_engine.errors is errors is sys.modules[errors.__name__]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_connectors_package_gives_late_what_it_declares_to_type_checkers() -> None:
    path = ROOT / "api" / "datastream" / "connectors" / "__init__.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    declared = {
        alias.name: node.module
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    module = importlib.import_module("changelog_engine.api.datastream.connectors")
    table = elsewhere(module.__name__)
    assert sorted(declared) == module.__all__
    assert {name: f"{module.__name__}.{home}" for name, home in declared.items()} == {
        name: table[name] for name in declared
    }
    assert set(declared) <= set(dir(module))


@pytest.mark.parametrize(
    "name", ["api.common.time", "api.common.typeinfo", "api.common.types", "api.datastream.functions"]
)
def test_all_of_public_modules(name: str) -> None:
    module = importlib.import_module(name)
    assert all(hasattr(module, each) for each in module.__all__)
