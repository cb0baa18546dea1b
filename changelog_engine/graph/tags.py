"""OutputTag: the name of a side output."""

from __future__ import annotations

from typing import Any

from changelog_engine.config.names import writable
from changelog_engine.errors import ArgumentTypeError
from changelog_engine.types import JavaMembers, TypeInformation, Types


class OutputTag(JavaMembers):
    """Names a side output and the type of its elements.

    A process function emits to a side output by yielding a pair of the tag and the element;
    ``DataStream.get_side_output`` gives the stream of them.

    Args:
        tag_id: the name; tags with the same name are the same output.
        type_info: type of the elements, or a list of types for rows; without it any Python object passes, by pickling.

    Raises:
        ConfigurationError: the name is not a str or empty, or the type is none.

    Example:
        >>> from changelog_engine.api.common import Types
        >>> OutputTag("late", Types.STRING()).tag_id
        'late'
    """

    __slots__ = ("tag_id", "type_info")

    def __deepcopy__(self, memo: dict[int, Any]) -> OutputTag:
        """Itself: it never changes, and travels beside each element of its output."""
        return self

    def __init__(self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None) -> None:
        given: object = tag_id
        if not isinstance(given, str) or not given:
            raise ArgumentTypeError(f"OutputTag: tag_id must be a non-empty str, got {tag_id!r}")
        writable(tag_id, "OutputTag: tag_id")
        if isinstance(type_info, list):
            type_info = Types.ROW(type_info)
        if type_info is not None and not isinstance(type_info, TypeInformation):
            raise ArgumentTypeError(
                f"OutputTag: type_info must be a type such as Types.STRING(), got {type_info!r}"
            )
        self.tag_id = tag_id
        self.type_info: TypeInformation = Types.PICKLED_BYTE_ARRAY() if type_info is None else type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return OutputTag, (self.tag_id, self.type_info)
