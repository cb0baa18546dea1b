"""Names of side outputs.

Source: pyflink.datastream.output_tag
"""

from changelog_engine.graph.tags import OutputTag

__all__ = ["OutputTag"]
