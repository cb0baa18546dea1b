"""A Java that lets nobody at the names that it keeps is told once (what is forgotten: tests/spark/test_memory.py)."""

from __future__ import annotations

import logging
from typing import Any
from unittest import mock

import pytest
from py4j.protocol import Py4JNetworkError

from changelog_engine.errors import RefusedByFlink
from changelog_engine.spark import exit_names

REFUSED = (
    "An error occurred while calling o33.setAccessible.\n"
    ": java.lang.reflect.InaccessibleObjectException: Unable to make field accessible\n"
    "\tat java.base/java.lang.reflect.AccessibleObject.checkCanSetAccessible\n"
)


def context(error: Exception) -> Any:
    made = mock.MagicMock()
    made._jvm.java.lang.Class.forName.return_value.getDeclaredField.side_effect = error
    return made


def test_a_java_that_keeps_the_names_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "changelog_engine")
    exit_names._tell.cache_clear()
    for _ in range(2):
        exit_names.forget_gone_sockets(context(RefusedByFlink(REFUSED)))  # is a Py4JJavaError
    [record] = caplog.records
    assert record.getMessage().endswith(
        "o33.setAccessible. : java.lang.reflect.InaccessibleObjectException: Unable to make field accessible"
    )


def test_a_jvm_that_is_gone_is_told_by_the_next_epoch_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "changelog_engine")
    exit_names.forget_gone_sockets(context(Py4JNetworkError("no answer")))
    assert not caplog.records
