"""The modules that PyFlink has, so that asking for one that is not here is told from a misspelt name.

Source: the module paths of pyflink 1.15 to 2.x
"""

from __future__ import annotations

_TOP = """
    dataset examples find_flink_home fn_execution gen_protos java_gateway java_utils metrics ml proto pyflink_callback_server
    pyflink_gateway_server serializers shell table testing util version
"""
_COMMON = """
    completable_future config_options configuration constants dependency_manager execution_config execution_mode
    input_dependency_constraint io job_client job_execution_result job_id job_status restart_strategy serialization
    serializer time typeinfo types utils watermark_strategy
"""
_DATASTREAM = """
    async_data_stream async_retry_predicates async_retry_strategies checkpoint_config checkpoint_storage checkpointing_mode
    connectors data_stream execution_mode externalized_checkpoint_retention formats functions output_tag slot_sharing_group
    state state_backend stream_execution_environment time_characteristic time_domain timerservice utils window
"""
_CONNECTORS = """
    base cassandra dynamic_kafka elasticsearch file_system hybrid_source jdbc kafka kinesis number_seq pulsar rabbitmq
"""
_FORMATS = "avro base csv json orc parquet"

PYFLINK_MODULES = frozenset(
    f"{parent}.{name}"
    for parent, names in (
        ("pyflink", _TOP),
        ("pyflink.common", _COMMON),
        ("pyflink.datastream", _DATASTREAM),
        ("pyflink.datastream.connectors", _CONNECTORS),
        ("pyflink.datastream.formats", _FORMATS),
    )
    for name in names.split()
)
# Packages of many modules.
_WHOLE = (
    "pyflink.table.",
    "pyflink.fn_execution.",
    "pyflink.ml.",
    "pyflink.testing.",
    "pyflink.util.",
)


def is_pyflinks(name: str) -> bool:
    """Whether PyFlink has a module of this full name, as far as is known."""
    return name in PYFLINK_MODULES or name.startswith(_WHOLE)
