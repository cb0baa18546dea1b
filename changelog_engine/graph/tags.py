"""OutputTag: the name of a side output."""

from __future__ import annotations

from typing import Any

from changelog_engine.errors import ConfigurationError
from changelog_engine.types import TypeInformation, Types


class OutputTag:
    """Names a side output and the type of its elements.

    A process function emits to a side output by yielding a pair of the tag and the element;
    ``DataStream.get_side_output`` gives the stream of them.

    Args:
        tag_id: the name; tags with the same name are the same output.
        type_info: type of the elements, or a list of types for rows; without it any Python object passes, by pickling.

    Raises:
        ConfigurationError: the name is no text or empty, or the type is none.

    Example:
        >>> from api.common import Types
        >>> OutputTag("late", Types.STRING()).tag_id
        'late'

    Source: pyflink.datastream.OutputTag
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None) -> None:
        given: object = tag_id
        if not isinstance(given, str) or not given:
            raise ConfigurationError(
                f"OutputTag: tag_id must be a text of at least one character, got {tag_id!r}"
            )
        if isinstance(type_info, list):
            type_info = Types.ROW(type_info)
        if type_info is not None and not isinstance(type_info, TypeInformation):
            raise ConfigurationError(
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
