"""Metrics of user functions."""

from .._unsupported import module_getattr
from .metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]

__getattr__ = module_getattr(__name__)
