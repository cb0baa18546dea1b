"""The templates, and what they show values with: of the page, and of the report, which is the page as one file.

Invariant: everything out of a log goes through Jinja's escaping; no template marks anything as safe.
"""

from __future__ import annotations

from pathlib import Path

import jinja2

from changelog_engine.readable import amount, duration, iso, per_second, size_text
from changelog_engine.types.typeinfo import cut
from changelog_engine.ui.values import shown, type_name

HERE = Path(__file__).parent


def templates() -> jinja2.Environment:
    """The environment in which all templates are rendered."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        shown=shown,
        type_name=type_name,
        bytes=size_text,
        duration=duration,
        amount=amount,
        per_second=per_second,
        time=iso,
        cut=cut,
    )
    return found
