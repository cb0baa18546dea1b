"""Names of side outputs."""

from changelog_engine.graph.tags import OutputTag

from .._unsupported import module_getattr

__all__ = ["OutputTag"]

__getattr__ = module_getattr(__name__)
