"""What a wheel has where: the API's code is ``changelog_engine/api``, and ``api`` only the file that leads to it.

So a package ``api`` of somebody else's, installed into the same site-packages, overwrites a short name and no code.
"""

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py

# Folders of templates and scripts are packages, too, though nothing imports them.
FOUND = find_namespace_packages(
    include=["api*", "changelog_engine*", "materializer*"], exclude=["*.__pycache__"]
)
API = [package for package in FOUND if package.split(".")[0] == "api"]
OTHERS = [package for package in FOUND if package not in API]


class Build(build_py):
    """Leaves the API's code out of ``api``."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """See build_py."""
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if package != "api" or module[1] == "__init__"]


setup(
    packages=["api", *(f"changelog_engine.{package}" for package in API), *OTHERS],
    package_dir={"changelog_engine.api": "api"},
    cmdclass={"build_py": Build},
)
