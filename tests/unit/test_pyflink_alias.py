"""The alias: pyflink means api, in the same objects, where it was asked for and nowhere else."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.graphs import GraphBuilder

import api
import api.datastream
from api._unsupported import NotSupportedImportError, no_module
from changelog_engine.api_names import FINDER, Short
from changelog_engine.graph.nodes import JobSettings
from changelog_engine.graph.plan import plan_job
from changelog_engine.launcher import alias_installed, install_alias, remove_alias
from changelog_engine.launcher.pyflink_modules import PYFLINK_MODULES
from changelog_engine.spark.shipping import ship

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(api.__path__, "api.")
    if not any(part.startswith("_") for part in name.split("."))
)


@pytest.fixture(autouse=True)
def own_process() -> Iterator[None]:
    """The alias goes away with the test."""
    yield
    remove_alias()
    FINDER.short = Short.BY_PATH


@pytest.mark.parametrize("name", MODULES)
def test_every_module_of_the_api_is_the_same_object_under_pyflinks_name(name: str) -> None:
    real = importlib.import_module(name)
    spec = real.__spec__
    install_alias()
    found = importlib.import_module("pyflink" + name.removeprefix("api"))
    assert found is real
    assert (found.__name__, found.__spec__) == (f"changelog_engine.{name}", spec)


def test_a_module_is_found_without_being_imported() -> None:
    install_alias()
    spec = importlib.util.find_spec("pyflink.common.time")
    assert spec is not None
    assert spec.origin == importlib.import_module("api.common.time").__file__


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("import pyflink.examples", "pyflink.examples"),
        ("from pyflink import shell", "pyflink.shell"),
        (
            "from pyflink.datastream.connectors.dynamic_kafka import DynamicKafkaSource",
            "pyflink.datastream.connectors.dynamic_kafka",
        ),
    ],
)
def test_what_pyflink_has_and_the_api_has_not_says_so(statement: str, what: str) -> None:
    install_alias()
    with pytest.raises(NotSupportedImportError, match=rf"^{what} is not part of this version") as caught:
        exec(statement, {})
    assert isinstance(caught.value, ImportError)


def test_programs_print_the_version_and_name_jars_by_it() -> None:
    install_alias()
    given: dict[str, str] = {}
    exec(
        "import pyflink; from pyflink.version import __version__ as imported; named = pyflink.version.__version__",
        given,
    )
    assert given["imported"] == given["named"] == "1.20.1"


def test_the_table_api_says_what_to_use() -> None:
    install_alias()
    for statement in ("from pyflink.table.expressions import col", "from pyflink.table import Schema"):
        with pytest.raises(
            NotSupportedImportError, match=r"is part of the Table API, .* env\.from_spark\(\)"
        ):
            exec(statement, {})


@pytest.mark.parametrize(
    ("module", "remedy"),
    [
        ("pyflink.ml.linalg", "the model of a Python library in a function"),
        ("pyflink.testing.test_case_utils", "changelog_engine.testing"),
        ("pyflink.util.exceptions", "env.configure"),
        ("pyflink.dataset", "RuntimeExecutionMode.BATCH"),
        ("pyflink.datastream.watermark_strategy", "did you mean 'pyflink.common.watermark_strategy'"),
        ("pyflink.datastream.windows", "did you mean 'pyflink.datastream.window'"),
        ("pyflink.connector", "did you mean 'pyflink.datastream.connectors'"),
        ("pyflink.Datastream", "did you mean 'pyflink.datastream'"),
        ("pyflink.datastream.connectors.file", "did you mean 'pyflink.datastream.connectors.file_system'"),
        ("pyflink.datastream.environment", "did you mean 'pyflink.datastream.stream_execution_environment'"),
    ],
)
def test_a_module_that_is_not_here_says_what_to_use(module: str, remedy: str) -> None:
    install_alias()
    with pytest.raises(ImportError, match=re.escape(remedy)):
        importlib.import_module(module)
    assert remedy in str(no_module(module)), "run --check asks for it so"


def test_a_module_that_is_like_none_is_not_said_to_be_another() -> None:
    """Redis was said to be Kinesis: all names of connectors begin with the same 30 letters."""
    assert str(no_module("pyflink.datastream.connectors.redis")) == (
        "No module named 'pyflink.datastream.connectors.redis'"
    )


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        (
            "from pyflink.datastream.state import HashMapStateBackend",
            "'pyflink.datastream.state': from pyflink.datastream import HashMapStateBackend",
        ),
        ("from pyflink.datastream.window import TumblingWindow", "did you mean 'TumblingEventTimeWindows'"),
        ("from pyflink.common.serialization import SimpleStringEncoder", "Encoder.simple_string_encoder()"),
        ("from pyflink.datastream.formats.json import typeinfo", "from pyflink.common import typeinfo"),
        ("from pyflink.common import utils", "pyflink.common.utils wraps Java's objects"),
        ("from pyflink.datastream.functions import ABC", "is Python's own: from abc import ABC"),
        ("from pyflink.datastream.window import math", "is Python's own: import math"),
        ("from pyflink.datastream.functions import JavaObject", "there is none here"),
    ],
)
def test_a_name_that_a_module_has_not_says_where_it_is(statement: str, remedy: str) -> None:
    install_alias()
    with pytest.raises(ImportError, match=re.escape(remedy)):
        exec(statement, {})


@pytest.mark.parametrize(
    "name", ["pyflink.datastraem", "pyflink.datastream.windows2", "pyflink.common.time.x"]
)
def test_what_neither_has_is_no_module(name: str) -> None:
    install_alias()
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}'") as caught:
        importlib.import_module(name)
    assert caught.value.name == name


def test_listed_modules_have_listed_parents() -> None:
    parents = {name.rpartition(".")[0] for name in PYFLINK_MODULES} - {
        "pyflink",
        "pyflink.common",
        "pyflink.datastream",
    }
    assert parents <= PYFLINK_MODULES


def test_an_installed_pyflink_is_left_alone(tmp_path: Path) -> None:
    installed = tmp_path / "site" / "pyflink"
    (installed / "datastream").mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    (installed / "datastream" / "__init__.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text("import pyflink.datastream\nprint(pyflink.datastream.__name__)")

    def output(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command, str(script)],
            env={"PYTHONPATH": f"{installed.parent}:{ROOT}", "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        return done.stdout

    assert output("-m", "changelog_engine", "run") == "changelog_engine.api.datastream\n"
    assert output() == "pyflink.datastream\n"


def test_a_pyflink_that_was_imported_before_gives_way_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyflink").mkdir()
    (tmp_path / "pyflink" / "__init__.py").write_text("installed = True")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("pyflink").installed
    install_alias()
    install_alias()
    assert importlib.import_module("pyflink") is api
    remove_alias()
    assert not alias_installed()
    assert importlib.import_module("pyflink").installed
    del sys.modules["pyflink"]


@pytest.mark.parametrize("alias", [True, False])
def test_workers_install_the_alias_when_the_driver_has_it(
    alias: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of the user that a worker imports while it unpickles the function."""
    (tmp_path / "users_module.py").write_text(
        "from api.datastream import MapFunction as Base\n"
        "try:\n    from pyflink.datastream import MapFunction as Base\nexcept ImportError:\n    Base = object\n"
        "class Map(Base):\n    def map(self, value):\n        return value\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    if alias:
        install_alias()
    module = importlib.import_module("users_module")
    build = GraphBuilder()
    build.collect(build.process(build.source([1]), module.Map()))
    shipped = ship("run", plan_job(build.graph()), JobSettings(), None)
    remove_alias()  # the worker is another process
    del sys.modules["users_module"]
    (function,) = [f for f in shipped.functions_of({1}).values() if type(f).__name__ == "Map"]
    assert alias_installed() is alias
    assert isinstance(function, api.datastream.MapFunction) is alias
    del sys.modules["users_module"]
