"""Sources, which plan splits and read ranges, and sinks, which write them."""

from changelog_engine.connectors.collection import CollectionReader, CollectionSource
from changelog_engine.connectors.hybrid import HybridSource
from changelog_engine.connectors.inherits import check_inherits
from changelog_engine.connectors.iterable import IterableReader, IterableSource
from changelog_engine.connectors.number_sequence import NumberSequenceReader, NumberSequenceSource
from changelog_engine.connectors.protocols import (
    AnySink,
    Committable,
    CommittingSink,
    CommittingWriter,
    Connector,
    DiscoveringSource,
    Position,
    Prepared,
    Range,
    RestoredSink,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    SourceOfParts,
    Split,
    SplitReader,
    Writer,
)
from changelog_engine.connectors.sinks import CollectSink, FunctionSink, FunctionWriter, PrintSink

__all__ = [
    "AnySink",
    "CollectSink",
    "CollectionReader",
    "CollectionSource",
    "Committable",
    "CommittingSink",
    "CommittingWriter",
    "Connector",
    "DiscoveringSource",
    "FunctionSink",
    "FunctionWriter",
    "HybridSource",
    "IterableReader",
    "IterableSource",
    "NumberSequenceReader",
    "NumberSequenceSource",
    "Position",
    "Prepared",
    "PrintSink",
    "Range",
    "RestoredSink",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "Source",
    "SourceOfParts",
    "Split",
    "SplitReader",
    "Writer",
    "check_inherits",
]
