"""What PyFlink's objects have because a Java object stands behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from changelog_engine.config.names import names_of
from changelog_engine.errors import NotSupportedError

_JAVAS = names_of(
    "from_internal_type get_java_output_tag get_java_type_info need_conversion to_internal_type to_j_row_kind"
)


class JavaMembers:
    """Base of classes whose namesakes in PyFlink have such members: asking for one says that there is no Java here.

    Raises:
        NotSupportedError: one was asked for.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # a checker of types is to know these classes by what they have

        def __getattr__(self, name: str) -> Any:
            owner = type(self).__name__
            if name in _JAVAS:
                raise NotSupportedError(
                    f"{owner}.{name} takes values to Java's side, and values stay in Python here: leave the call out; see "
                    "docs/compatibility.md"
                )
            raise AttributeError(f"{owner!r} object has no attribute {name!r}", name=name, obj=self)
