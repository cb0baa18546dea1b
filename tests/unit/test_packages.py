"""What pyproject.toml asks for, and the exact versions that CI has of it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(line) for lines in (project["dependencies"], *extras) for line in lines]


def test_ci_has_one_exact_version_of_each_package_within_its_range() -> None:
    lines = (ROOT / ".ci/constraints.txt").read_text(encoding="utf-8").splitlines()
    exact = {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines if not line.startswith("#"))
    }
    for need in wanted():
        version = exact.get(canonicalize_name(need.name))
        assert version, f"{need.name} has no line in .ci/constraints.txt"
        assert need.specifier.contains(version), f"{need} does not allow {version} of .ci/constraints.txt"
