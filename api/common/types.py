"""Row and RowKind."""

from changelog_engine.types import Row, RowKind

from .._unsupported import module_getattr

__all__ = ["Row", "RowKind"]

__getattr__ = module_getattr(__name__)
