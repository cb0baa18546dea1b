"""Formats: how connectors turn rows into bytes and bytes into rows."""

from ..._unsupported import module_getattr

__getattr__ = module_getattr(__name__)
