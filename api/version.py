"""The version of PyFlink whose behaviour this API has. Programs print it, and build the names of jars with it."""

from __future__ import annotations

from changelog_engine.api_names import refuse_other_names

refuse_other_names(__name__)

__version__ = "1.20.1"
