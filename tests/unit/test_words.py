"""Names of modules and classes use words as docs/glossary.md does: one meaning each."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
ENGINE = ("changelog_engine", "materializer")
JOINING = {"in"}  # words that have no meaning of their own
OFTEN = 3  # so many modules named with a word make it one that must be explained
# A class of two rooms, and why that confuses nobody.
TWICE = {
    "Checkpoint": "an item of a scripted source, which users import from changelog_engine.testing, asks for one",
    "ConnectionOptions": "each connector has its own",
    "Cluster": "each connector has its own",
    "ClientProperties": "each connector has its own",
    "Client": "each connector has its own",
    "Topics": "each connector has its own",
    "PartitionReader": "each connector has its own",
}


def modules() -> list[Path]:
    return [path for root in ENGINE for path in (ROOT / root).rglob("*.py") if path.stem != "__init__"]


def words_of(name: str) -> list[str]:
    return [word.removesuffix("s") for word in name.split("_") if word and word not in JOINING]


def explained() -> set[str]:
    cells = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(), flags=re.MULTILINE)
    return {word.removesuffix("s") for cell in cells for word in re.findall(r"[A-Za-z]+", cell.lower())}


def test_what_modules_are_often_named_with_is_explained():
    named = defaultdict(list)
    for path in modules():
        for word in set(words_of(path.stem)):
            named[word].append(str(path.relative_to(ROOT)))
    often = {word: paths for word, paths in named.items() if len(paths) >= OFTEN}
    missing = {word: paths for word, paths in often.items() if word not in explained()}
    assert often
    assert not missing


def test_no_word_is_explained_twice():
    first = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(), flags=re.MULTILINE)
    words = [
        word.strip() for cell in first for word in cell.split(",") if cell.strip("- ") not in ("", "word")
    ]
    assert words
    assert sorted(words) == sorted(set(words))


def test_a_public_class_has_a_name_of_its_own():
    places = defaultdict(list)
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert twice.keys() == TWICE.keys()
