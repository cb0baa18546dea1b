"""Names of side outputs."""

from changelog_engine.graph.tags import OutputTag

__all__ = ["OutputTag"]
