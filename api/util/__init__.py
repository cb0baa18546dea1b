"""PyFlink's ways to the Java objects behind its own: see `java_utils`."""

from .._unsupported import module_getattr

__all__: list[str] = []

__getattr__ = module_getattr(__name__)
