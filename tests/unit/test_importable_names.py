"""What programs import from PyFlink's modules, 1.15 to 2.3, they can import here from the same places, or are told why not.

`importable_names.json` is made by ``tests/support/importable_names.py``, which reads PyFlink's sources.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.importable_names import Tree

from api._reexports import _FROM, ROW_SCHEMAS
from api._unsupported import NotSupportedImportError
from api.datastream import StreamExecutionEnvironment
from changelog_engine.errors import NotSupportedError
from changelog_engine.launcher import install_alias, remove_alias
from changelog_engine.launcher.pyflink_modules import is_pyflinks

ROOT = Path(__file__).resolve().parents[2]
NAMES: dict[str, dict[str, str]] = json.loads(
    (ROOT / "tests" / "support" / "importable_names.json").read_text(encoding="utf-8")
)
SAYS_WHY = re.compile(r"^\S+ (is|wraps|takes|has|aligns|reaches into) .*; see docs/compatibility\.md$")


@pytest.fixture
def as_pyflink() -> Iterator[None]:
    install_alias()
    yield
    remove_alias()


def our(module: str) -> object:
    """Our module of a path below PyFlink's package, or None."""
    try:
        return importlib.import_module(f"api.{module}" if module else "api")
    except ImportError:
        return None


def imported(module: str, name: str) -> tuple[object, str]:
    """What ``from pyflink.module import name`` gives; or None, and what the error says."""
    found: dict[str, object] = {}
    try:
        exec(f"from pyflink.{module} import {name}", found)
    except NotSupportedImportError as error:
        return None, str(error)
    return found[name], ""


@pytest.mark.usefixtures("as_pyflink")
@pytest.mark.parametrize("module", NAMES)
def test_every_name_can_be_imported_from_where_pyflink_has_it_or_the_error_says_why_not(module: str) -> None:
    for name, origin in NAMES[module].items():
        home, _, own_name = origin.partition(":")
        found, said = imported(module, name)
        assert found is not None or SAYS_WHY.search(said), said
        there = our(home)
        if found is not None and own_name in getattr(there, "__dict__", {}):
            assert found is getattr(there, own_name), f"{name}: one object under all its names, as in PyFlink"


@pytest.mark.usefixtures("as_pyflink")
@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            "datastream.connectors.kafka",
            "DeliveryGuarantee Types SimpleStringValueKafkaRecordDeserializationSchema",
        ),
        ("datastream.window", "Time MAX_LONG_VALUE KEY W T"),
        ("datastream.state", "Time Duration"),
        (
            "datastream.functions",
            "ValueState ValueStateDescriptor MapState TimeDomain KEY W IN OUT IN1 IN2 W2 MetricGroup",
        ),
        ("datastream.stream_execution_environment", "RuntimeExecutionMode CheckpointConfig StateBackend"),
        ("datastream.connectors.file_system", "Encoder Duration"),
        ("datastream.data_stream", "KeyedStream WindowedStream MapStateDescriptor Row"),
        ("common", " ".join(ROW_SCHEMAS.values())),  # as in 1.15
        ("table", "Row RowKind DataTypes"),
    ],
)
def test_names_that_scripts_import_from_there(module: str, names: str) -> None:
    for name in names.split():
        assert imported(module, name)[0] is not None


@pytest.mark.usefixtures("as_pyflink")
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("from pyflink.common.typeinfo import LocalTimeTypeInfo", r"use Types\.SQL_DATE\(\)"),
        ("from pyflink.common.time import get_gateway", "reaches into Flink's Java process"),
        ("from pyflink.java_gateway import java_import", "reaches into Flink's Java process"),
        ("from pyflink.util.java_utils import to_jarray", "reaches into Flink's Java process"),
        ("from pyflink.datastream.utils import Row", "Row are in common"),
        ("from pyflink.datastream.state import List", "from typing import List"),
        ("from pyflink.datastream.data_stream import CachedDataStream", "DeltaSink"),
        ("from pyflink.datastream.connectors import KafkaStreamSubscriber", "is not part of this version"),
    ],
)
def test_what_is_not_here_says_what_to_use(statement: str, says: str) -> None:
    with pytest.raises(NotSupportedImportError, match=says):
        exec(statement, {})


def test_a_name_of_nobody_is_pythons_own_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'ValueStat'") as caught:
        exec("from api.datastream.functions import ValueStat", {})
    assert not isinstance(caught.value, NotSupportedImportError)


def test_what_is_not_here_does_not_exist() -> None:
    window = importlib.import_module("api.datastream.window")
    assert not hasattr(window, "InternalWindowFunction")
    with pytest.raises(NotSupportedError, match="part of PyFlink's own machinery"):
        _ = window.InternalWindowFunction


def test_java_objects_behind_pyflinks_do_not_exist() -> None:
    stream = StreamExecutionEnvironment().from_collection([1])
    with pytest.raises(
        NotSupportedError, match=r"DataStream\._j_data_stream is the Java object behind PyFlink's"
    ):
        _ = stream._j_data_stream
    assert not hasattr(stream, "_j_data_stream")


def test_no_module_is_said_to_give_what_it_imports() -> None:
    for module, homes in _FROM.items():
        own = vars(importlib.import_module(f"api.{module}"))
        assert not [name for names in homes.values() for name in names.split() if name in own], module


def test_every_module_of_the_list_is_known() -> None:
    assert all(our(module) is not None or is_pyflinks(f"pyflink.{module}") for module in NAMES)


def test_reexports_load_nothing_before_they_are_asked_for() -> None:
    code = (
        "import sys, changelog_engine.api.common as common; name = 'changelog_engine.api.datastream'\n"
        "before = name in sys.modules; common.JsonRowSerializationSchema; print(before, name in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False True\n"


def test_the_list_is_made_of_definitions_imports_stars_and_what_packages_are_given(tmp_path: Path) -> None:
    for path, text in {
        "common/__init__.py": "from pyflink.common.time import *\nfrom .types import Row as R\n__all__ = ['Time']\n",
        "common/time.py": "import sys\nfrom typing import List\n__all__ = ['Time']\nclass Time: pass\ndef helper(): pass\n",
        "common/types.py": "try:\n    from .time import helper\nexcept ImportError:\n    helper = None\nclass Row: pass\n",
        "common/_own.py": "class Hidden: pass\n",
        "common/tests/test_x.py": "class Test: pass\n",
        "datastream/__init__.py": "T: int = 1\n_private = 2\nif T:\n    from pyflink.common import Time as Again\n",
        "datastream/connectors/__init__.py": (
            "def _install():\n"
            "    from pyflink.datastream import connectors\n"
            "    from pyflink.datastream.connectors import kafka\n"
            "    setattr(connectors, 'KafkaSource', kafka.KafkaSource)\n"
        ),
        "metrics/__init__.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    tree = Tree(tmp_path)
    assert list(tree.modules()) == [
        "common", "common.time", "common.types", "datastream", "datastream.connectors", "metrics",
    ]  # fmt: skip
    assert tree.names("common") == {"Time": "common.time:Time", "R": "common.types:Row"}
    assert tree.names("common.types") == {"helper": "common.time:helper", "Row": "common.types:Row"}
    assert tree.names("datastream") == {"T": "datastream:T", "Again": "common.time:Time"}
    assert tree.names("datastream.connectors") == {"KafkaSource": "datastream.connectors.kafka:KafkaSource"}
