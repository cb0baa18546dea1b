"""Configuration: Flink's keys and ours, their notation, and the levels they come from."""

from changelog_engine.config.file import read_file
from changelog_engine.config.layers import ConfigLayers, outer_layers, set_command_line, without_effect
from changelog_engine.config.options import OPTIONS, Option, canonical, find
from changelog_engine.config.parsing import (
    parse_bool,
    parse_duration_ms,
    parse_float,
    parse_int,
    parse_map,
    parse_memory_bytes,
)
from changelog_engine.config.paths import absolute_path, local_path

__all__ = [
    "ConfigLayers",
    "OPTIONS",
    "Option",
    "absolute_path",
    "canonical",
    "find",
    "local_path",
    "outer_layers",
    "parse_bool",
    "parse_duration_ms",
    "parse_float",
    "parse_int",
    "parse_map",
    "parse_memory_bytes",
    "read_file",
    "set_command_line",
    "without_effect",
]
