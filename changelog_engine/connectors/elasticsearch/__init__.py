"""Elasticsearch and OpenSearch: documents into indexes, at least once, by bulk requests.

The requests are plain HTTP, which both products answer alike; urllib3 sends them. Nothing here imports it before a sink is
made: a program without such a sink does not need it.
"""

from changelog_engine.connectors.elasticsearch.documents import Emitter
from changelog_engine.connectors.elasticsearch.options import Backoff, BulkOptions, ClusterOptions
from changelog_engine.connectors.elasticsearch.sink import ElasticsearchSink

__all__ = ["Backoff", "BulkOptions", "ClusterOptions", "ElasticsearchSink", "Emitter"]
