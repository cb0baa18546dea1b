"""What every worker imports, and from where: once for all workers, before they are forked."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType

from changelog_engine.api_names import API
from changelog_engine.memory import keep_memory

_ZIP = os.path.join(os.sep, "pyspark", "python", "lib", "pyspark.zip")


def import_all() -> ModuleType:
    """Import what every worker needs; returns PySpark's daemon."""
    keep_memory(os.environ)
    import_compiled(sys.path)
    pyspark = import_module("pyspark.daemon")
    with suppress(Exception):  # the task says it again
        import changelog_engine.spark.task
        import changelog_engine.spark.worker  # noqa: F401 - the first task may be a while in coming

        import_module(f"{API}.datastream")  # a user's functions need it
        from changelog_engine.spark.files import FILES_VARIABLE

        if FILES_VARIABLE not in os.environ:  # the job's files may have a pandas of their own
            import_module("pyarrow").array([0])  # imports pandas, where there is one
    return pyspark


def import_compiled(path: list[str]) -> None:
    """Import PySpark from where it is installed, if that is where its zip file lies: the same code, but compiled.

    Spark puts ``pyspark.zip`` ahead of all packages. A zip file keeps no compiled modules, so each worker compiled them.
    And PySpark has Python look for new files in each worker's first task: up to 3.11, that reads the list of files in each
    archive on the path anew. So this one, which holds nothing else, is taken off the path, and Spark's jar behind it.
    """
    sites = [_site_of(each) for each in path]
    site = next((found for found in sites if found in path), None)
    if site is None or "pyspark" in sys.modules:
        return
    spec = PathFinder.find_spec("pyspark", [site])
    if spec is None or spec.loader is None:
        return
    sys.modules["pyspark"] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["pyspark"]
        raise
    for entry in [each for each in path if _site_of(each) == site or _is_sparks_jar(each)]:
        path.remove(entry)
        for inside in [each for each in sys.path_importer_cache if each.startswith(entry)]:
            del sys.path_importer_cache[inside]


def _site_of(entry: str) -> str | None:
    """Where the package ``pyspark`` lies that a zip file is a part of, as pip installs both; None for any other entry."""
    site = entry.removesuffix(_ZIP)
    installed = os.path.isfile(os.path.join(site, "pyspark", "__init__.py"))
    return site if site != entry and installed else None


def _is_sparks_jar(entry: str) -> bool:
    """Whether it is the jar that Spark puts on the path of all Python processes: it has had no Python modules for long."""
    name = os.path.basename(entry)
    return name.startswith("spark-core_") and name.endswith(".jar")
