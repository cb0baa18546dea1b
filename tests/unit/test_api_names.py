"""The API's modules under their names: once each, in every layout, beside somebody else's ``api``."""

from __future__ import annotations

import ast
import inspect
import os
import pickle
import pkgutil
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import api
from api._unsupported import modules, pyflinks
from changelog_engine.api_names import Short, names_here
from changelog_engine.codec.canonical import canonical_text, from_canonical
from changelog_engine.codec.payload import dump_payload, load_payload
from changelog_engine.errors import NotSerializableError, StrangersApiError

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(name for _, name, _ in pkgutil.walk_packages(api.__path__, "api."))
TOGETHER = """
    import sys
    import changelog_engine.api
    by_name = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("changelog_engine.api"):
            assert module.__name__ == name == module.__spec__.name, (name, module)
            by_name[name] = module
    files = [module.__file__ for module in by_name.values()]
    assert len(set(files)) == len(files)
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) in files:
            assert module is by_name[module.__name__], name
"""


def run(code: str, *path: Path, cwd: Path, fails: bool = False, flags: tuple[str, ...] = ()) -> str:
    """What a fresh interpreter prints, with entries of its own in front of its import path."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) is fails, done.stderr
    return done.stderr if fails else done.stdout


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """A folder with a package ``api`` of somebody else's."""
    folder = tmp_path / "theirs"
    (folder / "api").mkdir(parents=True)
    (folder / "api" / "__init__.py").write_text("whose = 'theirs'\n")
    (folder / "api" / "models.py").write_text(
        "import collections\nPoint = collections.namedtuple('Point', 'x y')\n"
    )
    return folder


@pytest.mark.parametrize(
    "first", ["api.datastream", "changelog_engine.api.datastream", "pyflink.datastream.functions"]
)
def test_case_54_whichever_name_comes_first_there_is_one_module(first: str, tmp_path: Path) -> None:
    code = f"""
    from changelog_engine.launcher import install_alias
    install_alias()
    import {first}
    import api.datastream, api.common.time, changelog_engine.api.datastream, pyflink.datastream.window
    import api, pyflink
    assert api is changelog_engine.api is pyflink
    from api.datastream.functions import MapFunction as A
    from changelog_engine.api.datastream.functions import MapFunction as B
    from pyflink.datastream.functions import MapFunction as C
    assert A is B is C and A.__module__ == "changelog_engine.api.datastream.functions"
    """
    run(textwrap.dedent(code) + textwrap.dedent(TOGETHER), ROOT, cwd=tmp_path)


def test_case_54_every_module_is_one_under_both_names(tmp_path: Path) -> None:
    code = f"""
    import importlib
    for name in {MODULES!r}:
        assert importlib.import_module(name) is importlib.import_module("changelog_engine." + name), name
    """
    run(textwrap.dedent(code) + textwrap.dedent(TOGETHER), ROOT, cwd=tmp_path)


def test_the_api_imports_itself_by_its_place_only() -> None:
    for path in (ROOT / "api").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert not [name for name in names if name.split(".")[0] == "api"], path


def test_case_54_a_strangers_api_stays_and_the_long_name_works(strangers: Path, tmp_path: Path) -> None:
    code = """
    import api, api.models
    from changelog_engine.api.datastream import StreamExecutionEnvironment
    from changelog_engine.launcher import install_alias
    install_alias()
    import pyflink.datastream
    assert pyflink.datastream.StreamExecutionEnvironment is StreamExecutionEnvironment
    assert api.whose == "theirs" and not hasattr(api, "datastream")
    print(api.models.Point(1, 2))
    """
    assert run(code, strangers, ROOT, cwd=tmp_path) == "Point(x=1, y=2)\n"


@pytest.mark.parametrize("statement", ["from api.common import Types", "import api.datastream.window"])
def test_case_54_asking_a_stranger_for_our_module_says_which_file_and_what_to_write(
    statement: str, strangers: Path, tmp_path: Path
) -> None:
    said = run(f"import changelog_engine\n{statement}", strangers, ROOT, cwd=tmp_path, fails=True)
    wanted = "api.common" if "common" in statement else "api.datastream"
    assert f"because 'api' is {strangers}/api/__init__.py" in said
    assert f"write 'changelog_engine.{wanted}' instead of '{wanted}'" in said


@pytest.mark.parametrize("name", ["common", "datastream", "metrics", "serializers", "table", "version"])
def test_case_54_our_files_are_not_loaded_below_a_stranger(name: str, tmp_path: Path) -> None:
    """Where a finder or an installation over ours leads Python to them."""
    code = f"""
    import sys, types
    stranger = sys.modules["api"] = types.ModuleType("api")
    stranger.__path__ = [{str(ROOT / "api")!r}]
    stranger.__file__ = "/somewhere/api.py"
    import api.{name}
    """
    said = run(code, ROOT, cwd=tmp_path, fails=True)
    assert "because 'api' is /somewhere/api.py; write 'changelog_engine.api" in said


def test_what_neither_the_stranger_nor_we_have_is_pythons_own_error(strangers: Path, tmp_path: Path) -> None:
    said = run("import changelog_engine, api.nothing", strangers, ROOT, cwd=tmp_path, fails=True)
    assert said.endswith("ModuleNotFoundError: No module named 'api.nothing'\n")


def test_case_54_the_error_tells_its_facts() -> None:
    error = pickle.loads(pickle.dumps(StrangersApiError("api.common", "/x/api.py")))
    assert (error.name, error.path, error.write) == ("api.common", "/x/api.py", "changelog_engine.api.common")


def test_case_54_a_users_folder_without_init_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "routes.py").write_text("where = 'users'")
    code = """
    from api.common import Types
    import api.routes
    print(api.routes.where, Types.__module__.split(".")[0])
    """
    assert run(code, ROOT, tmp_path, cwd=ROOT) == "users changelog_engine\n"


def test_case_54_an_archive_has_all_names(strangers: Path, tmp_path: Path) -> None:
    """As it is shipped to executors that have no engine."""
    archive = tmp_path / "engine.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for package in ("api", "changelog_engine", "materializer"):
            for path in (ROOT / package).rglob("*.py"):
                packed.write(path, path.relative_to(ROOT).as_posix())
    code = """
    import changelog_engine.api.datastream, api.datastream
    assert api.datastream is changelog_engine.api.datastream
    assert "engine.zip" in api.datastream.__file__
    """
    run(textwrap.dedent(code) + textwrap.dedent(TOGETHER), archive, cwd=tmp_path)
    code = "import api, changelog_engine.api.common as c; print(api.whose, 'engine.zip' in c.__file__)"
    assert run(code, strangers, archive, cwd=tmp_path) == "theirs True\n"


def test_case_54_what_a_wheel_has(strangers: Path, tmp_path: Path) -> None:
    """Also when somebody else's package was installed over its ``api``."""
    site = tmp_path / "site"
    build = f"build --build-base {tmp_path}/scratch --build-lib {site}"
    subprocess.run(
        [sys.executable, "setup.py", "-q", *build.split(), "egg_info", "--egg-base", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "CHANGELOG_ENGINE_PURE": "1"},  # the sources in C are built for other tests
        check=True,
        capture_output=True,
    )
    shipped = sorted(str(path.relative_to(site)) for path in site.rglob("*.py"))
    code = [
        str(path.relative_to(ROOT))
        for folder in ("api", "changelog_engine", "materializer")
        for path in (ROOT / folder).rglob("*.py")
    ]
    assert shipped == sorted(
        ["api/__init__.py"]
        + [f"changelog_engine/{name}" if name.startswith("api/") else name for name in code]
    )
    assert (site / "changelog_engine" / "spark" / "log4j2.properties").exists()
    page = run("from changelog_engine.cli.program import main; main(['help', 'runbook'])", site, cwd=tmp_path)
    assert page == (ROOT / "docs" / "runbook.md").read_text()
    both = """
    import api.datastream, changelog_engine.api.datastream
    assert api.datastream is changelog_engine.api.datastream and "/site/" in api.datastream.__file__
    """
    run(textwrap.dedent(both) + textwrap.dedent(TOGETHER), site, cwd=tmp_path)
    for path in (strangers / "api").iterdir():
        (site / "api" / path.name).write_bytes(path.read_bytes())
    code_after = (
        "import api.models, changelog_engine.api.common as c; print(api.whose, '/site/' in c.__file__)"
    )
    assert run(code_after, site, cwd=tmp_path) == "theirs True\n"
    assert "write 'changelog_engine.api" in run(
        "import changelog_engine, api.common", site, cwd=tmp_path, fails=True
    )


def test_case_54_workers_find_what_the_driver_meant(strangers: Path, tmp_path: Path) -> None:
    """A worker's path has the engine's sources first and the driver's entries last."""
    code = """
    from changelog_engine.api_names import Names, Short
    Names({short}).use()
    import api
    print(getattr(api, "whose", "ours"))
    """
    path = (ROOT, strangers)
    assert run(code.format(short="Short.STRANGERS"), *path, cwd=tmp_path) == "theirs\n"
    assert run(code.format(short="Short.OURS"), *reversed(path), cwd=tmp_path) == "ours\n"
    assert run(code.format(short="Short.BY_PATH"), *path, cwd=tmp_path) == "ours\n"
    told = "from changelog_engine.api_names import names_here; print(names_here().short.name)"
    assert run(told, strangers, ROOT, cwd=tmp_path) == "STRANGERS\n"
    assert run(told, ROOT, strangers, cwd=tmp_path) == "OURS\n"


def test_a_worker_that_had_the_api_as_ours_gives_it_to_a_stranger(strangers: Path, tmp_path: Path) -> None:
    code = """
    import api.common, changelog_engine.api
    from changelog_engine.api_names import Names, Short
    Names(Short.STRANGERS).use()
    import api.models
    assert api.whose == "theirs"
    """
    run(code, ROOT, strangers, cwd=tmp_path)


def test_here_the_short_name_is_ours() -> None:
    assert names_here().short is Short.OURS


def test_docs_and_examples_show_the_name_that_always_works() -> None:
    short = re.compile(r"^\s*(>>>|\.\.\.)?\s*(from|import) api\b")
    folders = [ROOT / name for name in ("api", "changelog_engine", "materializer", "docs")]
    files = [ROOT / "README.md", *(path for folder in folders for path in folder.rglob("*.*"))]
    for path in files:
        if path.suffix in (".md", ".py"):
            for line in path.read_text(encoding="utf-8").splitlines():
                assert not short.match(line), f"{path}: {line}"


def test_case_54_tables_of_earlier_versions_are_read_beside_a_stranger(
    strangers: Path, tmp_path: Path
) -> None:
    old = b"\x80\x02capi.common.time\nDuration\n."
    text = '{"global":"api.common.time:Duration"}'
    assert load_payload(old) is api.common.Duration
    assert canonical_text(api.common.Duration) == text
    assert from_canonical(text) is api.common.Duration
    code = f"""
    import api.models
    from changelog_engine.codec.canonical import canonical_text, from_canonical
    from changelog_engine.codec.payload import dump_payload, load_payload
    from changelog_engine.api.common import Duration
    assert load_payload({old!r}) is Duration
    assert from_canonical({text!r}) is Duration and canonical_text(Duration) == {text!r}
    assert load_payload(dump_payload(Duration)) is Duration
    point = api.models.Point(1, 2)
    assert load_payload(dump_payload(point)) == point
    assert from_canonical(canonical_text(api.models.Point)) is api.models.Point
    """
    run(code, strangers, ROOT, cwd=tmp_path)


def test_payloads_name_the_api_so_that_every_process_finds_it() -> None:
    data = dump_payload(api.common.Duration)
    assert b"changelog_engine.api.common.time" in data


def test_case_54_a_strangers_class_of_our_name_is_refused_as_a_key(strangers: Path, tmp_path: Path) -> None:
    (strangers / "api" / "common").mkdir()
    (strangers / "api" / "common" / "__init__.py").write_text("")
    (strangers / "api" / "common" / "time.py").write_text("class Duration: pass")
    code = """
    from api.common.time import Duration
    from changelog_engine.codec.canonical import canonical_text
    canonical_text(Duration)
    """
    said = run(code, strangers, ROOT, cwd=tmp_path, fails=True)
    assert NotSerializableError.__name__ in said
    assert "api.common.time.Duration of your own package cannot be in a key" in said


def test_every_module_answers_for_names_that_it_does_not_have_and_stays_its_own_loaders() -> None:
    for module in modules():
        if module.__name__.removeprefix("changelog_engine.api.").startswith("_"):
            continue
        with pytest.raises(ImportError, match=pyflinks(module.__name__)):
            exec(f"from {module.__name__} import Nobodys")
        assert module.__spec__ is not None
        assert module.__loader__ is module.__spec__.loader
        assert inspect.getsource(module)
