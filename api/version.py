"""The version of PyFlink whose behaviour this API has. Programs print it, and build the names of jars with it."""

from __future__ import annotations

from ._unsupported import module_getattr

__version__ = "1.20.1"

__getattr__ = module_getattr(__name__)
