"""Sources, which plan splits and read ranges, and sinks, which write them."""

from changelog_engine.connectors.collection import CollectionSource
from changelog_engine.connectors.hybrid import HybridSource
from changelog_engine.connectors.inherits import check_inherits
from changelog_engine.connectors.iterable import IterableSource
from changelog_engine.connectors.number_sequence import NumberSequenceSource
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
from changelog_engine.connectors.sinks import CollectSink, FunctionSink, PrintSink
from changelog_engine.connectors.socket_text import SocketTextSource

__all__ = [
    "AnySink",
    "CollectSink",
    "CollectionSource",
    "Committable",
    "CommittingSink",
    "CommittingWriter",
    "Connector",
    "DiscoveringSource",
    "FunctionSink",
    "HybridSource",
    "IterableSource",
    "NumberSequenceSource",
    "Position",
    "Prepared",
    "PrintSink",
    "Range",
    "RestoredSink",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "SocketTextSource",
    "Source",
    "SourceOfParts",
    "Split",
    "SplitReader",
    "Writer",
    "check_inherits",
]
