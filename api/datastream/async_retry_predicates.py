"""Ready-made predicates for the retries of async functions."""

from __future__ import annotations

from typing import Any

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Whether there are no results."""
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Whether there is an exception, whichever."""
    return error is not None


def exception_type_predicate(error: BaseException | None, expected_error_type: Any) -> bool:
    """Whether the exception is of a type, or of one of a tuple of types; give the type by ``functools.partial``."""
    return isinstance(error, expected_error_type)
