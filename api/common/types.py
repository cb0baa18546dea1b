"""Row and RowKind.

Source: pyflink.common.types
"""

from changelog_engine.types import Row, RowKind

__all__ = ["Row", "RowKind"]
