"""NumPy's values are told from others in calls to Java without PySpark's helpers for tests, which import pandas."""

from __future__ import annotations

import datetime
import sys
from typing import Any

import numpy as np
import pytest
from py4j import protocol
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

from changelog_engine.spark.numpy_values import tell_numpy_values_without_pandas

VALUES = [
    np.int64(1), np.float32(1.5), np.bool_(True), np.str_("a"), np.datetime64("2026-01-01"),
    np.array([1, 2]), np.array([]), np.array(["a"]), np.array(1), np.array([[1], [2]]),
    None, 1, 1.5, True, "a", b"a", [1], (1,), {1}, {"a": 1}, datetime.date(2026, 1, 1), object(), np,
]  # fmt: skip


def verdicts() -> list[list[bool]]:
    """What each converter says of each value."""
    return [
        [bool(converter.can_convert(value)) for value in VALUES]
        for converter in protocol.INPUT_CONVERTER
        if "NTZ" not in type(converter).__name__  # asks the JVM
    ]


@pytest.fixture
def pyspark_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's converters where a job of another test has replaced them."""
    own = [getattr(converter, "_own", converter) for converter in protocol.INPUT_CONVERTER]
    monkeypatch.setattr(protocol, "INPUT_CONVERTER", own)


@pytest.mark.usefixtures("pyspark_s_own")
def test_the_same_values_are_converted_and_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    held, before = protocol.INPUT_CONVERTER, verdicts()
    tell_numpy_values_without_pandas()
    assert protocol.INPUT_CONVERTER is held
    assert not {NumpyArrayConverter, NumpyScalarConverter}.intersection(map(type, held))
    for module in ("pyspark.testing", "pyspark.testing.utils"):
        monkeypatch.setitem(sys.modules, module, None)  # importing it raises
    assert verdicts() == before
    tell_numpy_values_without_pandas()
    assert verdicts() == before


@pytest.mark.usefixtures("pyspark_s_own")
def test_pyspark_converts_them() -> None:
    tell_numpy_values_without_pandas()
    converted: list[Any] = []
    for value in VALUES[:2]:
        converter = next(one for one in protocol.INPUT_CONVERTER if one.can_convert(value))
        converted.append(converter.convert(value, None))
    assert converted == [1, 1.5]
    assert [type(value) for value in converted] == [int, float]
