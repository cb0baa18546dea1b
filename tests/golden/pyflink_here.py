"""Whether this is the PyFlink that wrote what programs here are expected to give. Nothing of this project is imported."""

from __future__ import annotations

import sys
from importlib import metadata

VERSION = "1.20.1"


def check_version() -> None:
    """End this process, with a reason, unless ``pyflink`` is PyFlink of the version that all here was recorded with."""
    try:
        found = metadata.version("apache-flink")
    except metadata.PackageNotFoundError:
        found = "none"
    if found != VERSION:
        sys.exit(
            f"apache-flink=={VERSION} is needed in the environment of {sys.executable}, which has {found}"
        )
    if "changelog_engine" in sys.modules:
        sys.exit("this records what PyFlink gives, and is run by changelog-engine: run it by python")
