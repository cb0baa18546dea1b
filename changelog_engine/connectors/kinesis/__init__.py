"""Amazon Kinesis Data Streams: streams as sources, read by sequence numbers of the job's own, and as sinks, at least once.

boto3 sends the requests. Nothing here imports it before a source or sink is made: a program without Kinesis does not
need it.
"""

from changelog_engine.connectors.kinesis.properties import ClientProperties
from changelog_engine.connectors.kinesis.reader import KinesisRecord
from changelog_engine.connectors.kinesis.sink import KinesisSink, SinkOptions
from changelog_engine.connectors.kinesis.source import KinesisSource

__all__ = ["ClientProperties", "KinesisRecord", "KinesisSink", "KinesisSource", "SinkOptions"]
