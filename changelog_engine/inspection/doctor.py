"""What of this machine, its Python and a base path would keep jobs from running, and how to mend it. It changes nothing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from changelog_engine.api_names import Short, names_here
from changelog_engine.config.paths import local_path
from changelog_engine.errors import ChangelogEngineError, EnvironmentNotReadyError
from changelog_engine.inspection.jobs import list_jobs
from changelog_engine.java import check_java, find_java
from changelog_engine.readable import counted, size_text
from changelog_engine.state import handles_in_c
from changelog_engine.storage.opening import open_storage
from changelog_engine.storage.retry import has_no_inodes
from changelog_engine.types import row_loops

OK, WARNING, WRONG = "ok", "warning", "wrong"
_PACKAGE = "changelog-engine"
_PYTHONS = SpecifierSet(">=3.11,<3.15")  # for want of the package's own word
_LITTLE_DISK = 1_000_000_000
_NO_DISK = 50_000_000  # less than a checkpoint with its parts and Spark's files may take
_ONLY_READ = "; whether the store lets a job write is not tried"  # a probe would be a change
_FOLDER = Path(__file__).parents[1]
_DEVELOPMENT = {"test", "lint", "demo", "bench", "soak", "docs"}  # extras of those who work on the engine


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Args:
        level: ok, warning or wrong.
        remedy: how to mend it; None where nothing is to be mended.
    """

    what: str
    level: str
    found: str
    remedy: str | None = None


def examine(base: str | None = None) -> list[Check]:
    """Look at everything, and whether the base path, if one is given, can be reached."""
    found = [
        _python(),
        _bytecode(),
        *_packages(),
        _extension("Rows", "their loops", row_loops.WHY_NOT, "Half as much CPU again for a Row"),
        _extension(
            "state",
            "what its handles do",
            handles_in_c.WHY_NOT,
            "Three to six times the CPU for a call of many of them",
        ),
        _java(),
        _api(),
        _disk("temporary folder", tempfile.gettempdir()),
    ]
    return found if base is None else [*found, *_base(base)]


def _python() -> Check:
    here = f"Python {platform.python_version()} in {sys.prefix}"
    try:
        wanted = SpecifierSet(metadata(_PACKAGE)["Requires-Python"])
    except PackageNotFoundError:
        wanted = _PYTHONS
    if wanted.contains(platform.python_version(), prereleases=True):
        return Check("Python", OK, here)
    return Check("Python", WRONG, here, f"Use a Python that is {wanted}; workers need the driver's version")


def _bytecode() -> Check:
    """Whether a start finds the package's modules compiled, or compiles them and keeps what it made."""
    what = "bytecode"
    if not sys.dont_write_bytecode:
        return Check(what, OK, "kept: only the first start compiles a module")
    modules = [str(path) for path in _FOLDER.rglob("*.py")]
    missing = [path for path in modules if not os.path.exists(importlib.util.cache_from_source(path))]
    if not missing:
        return Check(what, OK, "none is written, and the engine's modules are compiled")
    return Check(
        what,
        WARNING,
        f"PYTHONDONTWRITEBYTECODE is set, or Python runs with -B, and {len(missing)} of {len(modules)} of the engine's "
        "modules are not compiled: each start compiles anew those that it imports",
        f"Unset it, or compile once: {shlex.join([sys.executable, '-m', 'compileall', '-q', str(_FOLDER.parent)])}",
    )


def _packages() -> list[Check]:
    """The packages that are always needed, and those of extras, of which all or none should be there."""
    try:
        own = version(_PACKAGE)
        needed = [Requirement(line) for line in requires(_PACKAGE) or []]
    except PackageNotFoundError:
        remedy = "Install it into this Python: pip install -e . in a checkout, or the wheel"
        return [
            Check(
                "packages",
                WARNING,
                f"{_PACKAGE} is not installed here, so what it needs is not known",
                remedy,
            )
        ]
    of_extras = {
        extra: [need for need in needed if need.marker is not None and need.marker.evaluate({"extra": extra})]
        for extra in metadata(_PACKAGE).get_all("Provides-Extra") or []
        if extra not in _DEVELOPMENT
    }
    always = [need for need in needed if need.marker is None or need.marker.evaluate({"extra": ""})]
    found = []
    if wrong := [need for need in always if _wrong(need)]:
        remedy = "pip install " + " ".join([f"'{need.name}{need.specifier}'" for need in wrong])
        found.append(Check("packages", WRONG, "; ".join([_wrong(need) or "" for need in wrong]), remedy))
    else:
        found.append(Check("packages", OK, f"{_PACKAGE} {own} and the {len(always)} packages that it needs"))
    there = []
    for extra, own_needs in sorted(of_extras.items()):
        own_needs = [need for need in own_needs if need not in always]
        if not any(_installed(need.name) for need in own_needs):
            continue
        faults = [fault for need in own_needs if (fault := _wrong(need))]
        if faults:
            found.append(
                Check(f"extra {extra}", WARNING, "; ".join(faults), f"pip install '{_PACKAGE}[{extra}]'")
            )
        else:
            there.append(extra)
    missing = ", ".join([extra for extra in sorted(of_extras) if extra not in there]) or "none"
    found.append(
        Check("extras", OK, f"there: {', '.join(there) or 'none'}; not there, or not whole: {missing}")
    )
    return found


def _extension(subject: str, what: str, why_not: str | None, price: str) -> Check:
    if why_not is None:
        return Check(subject, OK, f"{what} run in C")
    return Check(
        subject,
        WARNING,
        f"{what} run in Python: the extension in C is not used, {why_not}. {price}",
        f"Install {_PACKAGE} again, where gcc and Python.h are there (Debian: gcc, python3-dev)",
    )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _wrong(need: Requirement) -> str | None:
    there = _installed(need.name)
    if there is None:
        return f"{need.name} {need.specifier} is not there"
    if need.specifier.contains(there, prereleases=True):
        return None
    return f"{need.name} is {there}, and {need.specifier} is needed"


def _java() -> Check:
    try:
        found = check_java()
        return Check("Java", OK, f"Java {found} at {find_java()[0]}")
    except EnvironmentNotReadyError as error:
        return Check("Java", WRONG, f"{error.fault}; the console and the page do without", error.remedy)
    except OSError as error:
        return Check("Java", WRONG, str(error), "Install Java 17 or newer")


def _api() -> Check:
    """What ``api`` means: somebody's own package of this name is left alone, and then programs must say the long name."""
    names = names_here()
    if names.short is Short.STRANGERS:
        where = _place_of_api()
        return Check(
            "api",
            WARNING,
            f"`api` is somebody else's package here{where}",
            "Import changelog_engine.api in programs, or start them by `changelog-engine run`; or take that package off the "
            "import path",
        )
    return Check(
        "api", OK, "`api` means the engine's" if names.short is Short.OURS else "nothing else is called `api`"
    )


def _place_of_api() -> str:
    for entry in sys.path:
        for name in (os.path.join(entry, "api"), os.path.join(entry, "api.py")):
            if os.path.exists(name):
                return f": {name}"
    return ""


def _disk(what: str, folder: str) -> Check:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(what, WRONG, f"{folder}: {error}", "Make the folder, or set TMPDIR to another")
    said = f"{folder}: {size_text(free)} free"
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check(
            what, WRONG, f"{folder} is not writable", "Change its permissions, or use another folder"
        )
    if has_no_inodes(folder):
        remedy = "Delete files on it, or use another file system: df -i shows who has inodes left"
        return Check(what, WRONG, f"{said}, but no inode: no file more can be made there", remedy)
    if free < _LITTLE_DISK:
        level = WRONG if free < _NO_DISK else WARNING
        return Check(what, level, said, "Make room: parts, Spark's shuffle files and RocksDB need it")
    return Check(what, OK, said)


def _base(base: str) -> list[Check]:
    what = "base path"
    try:
        storage = open_storage(base)
        there = storage.exists()
        if there and storage.is_file():
            return [Check(what, WRONG, f"{storage.root} is a file", "Name a folder")]
    except Exception as error:  # of any client of an object store
        return [Check(what, WRONG, f"{base} cannot be reached: {error}", _reach(base))]
    found = []
    if storage.local is not None:
        folder = storage.local
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
        found.append(_disk(f"disk of the {what}", folder))
    if not there:
        only_read = "" if storage.local is not None else _ONLY_READ
        return [
            Check(what, OK, f"{storage.root} is not there yet: the first job makes it{only_read}"),
            *found,
        ]
    return [*_listed(base), *found]


def _listed(base: str) -> list[Check]:
    try:
        found = list_jobs(base)
    except ChangelogEngineError as error:
        return [Check("base path", WRONG, str(error), _reach(base))]
    damaged = [job for job in found if job.fault]
    said = f"{base} can be listed, {counted(len(found), 'folder')} of jobs and savepoints"
    if local_path(base) is None:
        said += _ONLY_READ
    checks = [Check("base path", OK, said)]
    return checks + [
        Check(
            f"job {job.name}",
            WRONG,
            job.fault or "",
            None
            if job.state == "unreadable"
            else f"changelog-engine verify {shlex.quote(job.path)} says more, --repair mends",
        )
        for job in damaged
    ]


def _reach(base: str) -> str:
    if local_path(base) is None:
        return (
            "Look at the name, and at the store's endpoint and keys, from the file that CHANGELOG_ENGINE_CONF names or the "
            "environment: docs/connectors/files.md, Keys and endpoints"
        )
    return "Name the folder above the jobs, and look at its permissions"
