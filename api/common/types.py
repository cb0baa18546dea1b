"""Row and RowKind."""

from changelog_engine.types import Row, RowKind

__all__ = ["Row", "RowKind"]
