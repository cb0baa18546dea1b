"""The templates, and what they show values with: of the page, and of the report, which is the page as one file.

Invariant: everything out of a log goes through Jinja's escaping; no template marks anything as safe.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jinja2

from changelog_engine.readable import amount, counted, duration, iso, per_second, size_text
from changelog_engine.types.typeinfo import cut
from changelog_engine.types.typeinfo import shown as in_python

HERE = Path(__file__).parent
_MOST_LETTERS = 2_000


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
        bytes=size_text,
        duration=duration,
        amount=amount,
        counted=counted,
        per_second=per_second,
        time=iso,
        cut=cut,
    )
    return found


def shown(value: Any, most: int = _MOST_LETTERS) -> str:
    """A key or value as Python writes it, cut where it is long; nothing in it can steer what shows it."""
    text = "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in in_python(value, sys.maxsize))
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} letters)"
