"""What users import from the package itself, loaded when it is first asked for: importing the package stays quick."""

from __future__ import annotations

from typing import Any


def exported(name: str) -> Any:
    """The package's ``__getattr__``.

    Raises:
        AttributeError: it has no such name.
    """
    if name == "errors":
        import changelog_engine.errors as errors

        return errors
    if name == "bootstrap":
        from changelog_engine.savepoints.bootstrap import bootstrap

        return bootstrap
    if name == "explain":
        from changelog_engine.provenance.explain import explain

        return explain
    if name == "repair":
        from changelog_engine.corrections.repair import repair

        return repair
    raise AttributeError(f"module 'changelog_engine' has no attribute {name!r}")
