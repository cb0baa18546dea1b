"""What a wheel has where: the API's code is ``changelog_engine/api``, and ``api`` only the file that leads to it.

So a package ``api`` of somebody else's, installed into the same site-packages, overwrites a short name and no code.
"""

import os
import zlib
from pathlib import Path

from setuptools import Extension, find_namespace_packages, setup
from setuptools.command.build_py import build_py

# Folders of templates and scripts are packages, too, though nothing imports them.
FOUND = find_namespace_packages(
    include=["api*", "changelog_engine*", "materializer*"], exclude=["*.__pycache__"]
)
API = [package for package in FOUND if package.split(".")[0] == "api"]
PAGES = "changelog_engine.pages"  # the documentation, for `changelog-engine help`
OTHERS = [package for package in FOUND if package not in API]

# Without a compiler, or where a wheel is to be for all platforms, Python does the same: changelog_engine/extension.py.
IN_C = ["changelog_engine/types/_row_loops.c", "changelog_engine/state/_handles.c"]


def extension(source: str) -> Extension:
    """The extension of a source in C; what is imported tells by the checksum whether it was built of what is there."""
    checksum = f'"{zlib.crc32(Path(__file__).parent.joinpath(source).read_bytes()):08x}"'
    name = source.removesuffix(".c").replace("/", ".")
    return Extension(name, [source], define_macros=[("SOURCE", checksum)], optional=True)


class Build(build_py):
    """Leaves the API's code out of ``api``."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """See build_py."""
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if package != "api" or module[1] == "__init__"]


setup(
    packages=["api", *(f"changelog_engine.{package}" for package in API), *OTHERS, PAGES],
    package_dir={"changelog_engine.api": "api", PAGES: "docs"},
    cmdclass={"build_py": Build},
    ext_modules=[] if os.environ.get("CHANGELOG_ENGINE_PURE") else list(map(extension, IN_C)),
)
