"""Several sources, one after the other."""

from __future__ import annotations

from typing import Self

from changelog_engine import connectors as engine

from .._connectors import as_source
from .base import Source

__all__ = ["HybridSource", "HybridSourceBuilder"]


class HybridSource(Source):
    """Reads sources one after the other, such as files and then the topic that goes on from them, exactly once.

    A source begins when the one before was read to its end by all subtasks; where it begins, such as at the end of a topic,
    is decided then, and part of a checkpoint before anything of it is read.

    Example:
        >>> files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/history").build()
        >>> source = HybridSource.builder(files).add_source(kafka).build()
    """

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Begin with a source.

        Args:
            first_source: a Source; bounded, when others follow.
        """
        return HybridSourceBuilder(first_source)


class HybridSourceBuilder:
    """Builds a `HybridSource`."""

    def __init__(self, first_source: Source) -> None:
        self._source = engine.HybridSource([as_source(first_source, "HybridSource.builder")])

    def add_source(self, source: Source) -> Self:
        """Go on with a source after those before.

        Args:
            source: a Source; bounded, when others follow.

        Raises:
            ConfigurationError: no Source, the one before never ends, or their elements are of different types.
        """
        self._source = engine.HybridSource(
            [self._source, as_source(source, "HybridSourceBuilder.add_source")]
        )
        return self

    def build(self) -> HybridSource:
        """The source."""
        return HybridSource(self._source)
