"""The rooms of the engine are one list: the folders, import-linter's layers, docs/architecture.md and README's tour."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "changelog_engine"
OUTSIDE = {"api", "materializer"}


def contracts() -> dict[str, dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["name"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}


def layers() -> list[str]:
    """Packages and rooms from the top down, each layer one of them."""
    names = [layer.strip("()") for layer in contracts()["Layers import only downwards"]["layers"]]
    assert all(re.fullmatch(r"[a-z_.]+", name) for name in names), names
    return names


def rooms() -> list[str]:
    """Rooms of the engine as the linter has them, from the top down."""
    return [name.removeprefix(f"{ENGINE}.") for name in layers() if name not in OUTSIDE]


def test_every_module_of_the_engine_is_in_a_layer() -> None:
    there = {
        path.stem
        for path in (ROOT / ENGINE).iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__")) or (path / "__init__.py").exists()
    }
    assert sorted(rooms()) == sorted(there)


def test_the_architecture_has_the_layers_in_their_order() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    found = re.search(r"Imports\s+point\s+down\s+only\s+\((.*?)\);\s+`make\s+lint`", text, re.DOTALL)
    assert found is not None
    named = [name.removeprefix(f"{ENGINE}.") for name in re.findall(r"`([a-z_.]+)`", found[1])]
    named.remove(ENGINE)  # "then `changelog_engine`:"
    assert named == [name.removeprefix(f"{ENGINE}.") for name in layers()]


def test_the_tour_has_every_room() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tour = text.partition("## The tour")[2].partition("\n###")[0]
    cells = re.findall(r"^\| (`(?:changelog_engine/|api/|materializer/).*?) \|", tour, re.MULTILINE)
    named = [
        name.removeprefix(f"{ENGINE}/").rstrip("/")
        for cell in cells
        for name in re.findall(r"`([a-z_/]+)`", cell)
    ]
    assert sorted(named) == sorted([*rooms(), *OUTSIDE])


def test_pyspark_is_kept_out_of_every_room_under_spark() -> None:
    contract = contracts()["PySpark is touched in changelog_engine.spark only"]
    all_layers = layers()
    assert contract["source_modules"] == all_layers[all_layers.index(f"{ENGINE}.spark") + 1 :]


def test_delta_tables_are_kept_out_of_every_room_but_storage() -> None:
    contract = contracts()["Delta tables are touched in changelog_engine.storage only"]
    inside = [name for name in layers() if name not in OUTSIDE and name != f"{ENGINE}.storage"]
    assert contract["source_modules"] == inside


def loaded_by_name(path: Path) -> list[str]:
    """Modules that a file loads by a name that stands in it."""
    text = path.read_text(encoding="utf-8")
    if "import_module" not in text:  # not parsed in vain: all files are two seconds
        return []
    tree = ast.parse(text)
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    names: list[Any] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("import_module"):
            given = node.args[0]
            names.append(
                constants.get(given.id) if isinstance(given, ast.Name) else getattr(given, "value", None)
            )
    return [name for name in names if isinstance(name, str)]


def test_no_room_is_loaded_by_its_name() -> None:
    """The linter sees no such import. The API is the exception: it has two names, and only one is always its own."""
    files = [path for package in (ENGINE, *OUTSIDE) for path in (ROOT / package).rglob("*.py")]
    found = {(str(path.relative_to(ROOT)), name) for path in files for name in loaded_by_name(path)}
    assert any(name == "pymysql.cursors" for _, name in found), "it finds none at all"
    ours = {(path, name) for path, name in found if name.split(".")[0] in {ENGINE, *OUTSIDE}}
    assert {(path, name) for path, name in ours if not name.startswith(f"{ENGINE}.api")} == set()
