"""NumPy's values as arguments of calls to Java, told from others without pandas.

PySpark's own converters ask its helpers for tests whether there is NumPy, with each argument, and these import pandas: a
third of a second of CPU in the first call that a driver makes, while nothing else goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from py4j import protocol
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter


class _Converter:
    """One of PySpark's converters, which is asked only to convert."""

    def __init__(self, own: Any, is_meant: Callable[[Any], bool]) -> None:
        self._own = own
        self.can_convert = is_meant

    def convert(self, value: Any, gateway_client: Any) -> Any:
        return self._own.convert(value, gateway_client)


_MEANT: dict[type, Callable[[Any], bool]] = {
    NumpyScalarConverter: lambda value: isinstance(value, np.generic),
    NumpyArrayConverter: lambda value: isinstance(value, np.ndarray) and value.ndim == 1,
}


def tell_numpy_values_without_pandas() -> None:
    """Put converters that import nothing in the places of PySpark's; nothing happens the second time."""
    converters = protocol.INPUT_CONVERTER  # gateways hold this very list
    converters[:] = [_Converter(own, _MEANT[type(own)]) if type(own) in _MEANT else own for own in converters]
