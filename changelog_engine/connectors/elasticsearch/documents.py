"""Elements of a stream as actions of a bulk request.

Invariant: what is sent says what the element says, or an error names the element.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson

from changelog_engine.errors import ConfigurationError, TypeMismatchError
from changelog_engine.formats.texts import instant_text
from changelog_engine.types import Instant
from changelog_engine.types.foreign import attributes_of, fields_of
from changelog_engine.types.row import Row, field_names_of
from changelog_engine.types.temporal import moment_of_numpy
from changelog_engine.types.typeinfo import shown

_SHOWN_CHARS = 300
_KNOWN_HEADS = 1_024  # indexes of which the line before a document is remembered
_CONFLICT_RETRIES = 3  # by the cluster itself, when two subtasks update a document at once
_FIRST_WITH_ONE_TYPE = 7  # before, a request must name one
_FIRST_WITHOUT_TYPES = {"elasticsearch": 8, "opensearch": 2}


class Product(NamedTuple):
    """What answers: ``elasticsearch`` or ``opensearch``, and its version's first number."""

    name: str
    version: str

    @property
    def major(self) -> int:
        """The version's first number; 0 when it has none."""
        first = self.version.partition(".")[0]
        return int(first) if first.isdigit() else 0


class Action(NamedTuple):
    """One document's part of a bulk request."""

    index_name: str
    id: str | None  # of the document, None where the cluster chooses one
    lines: bytes


@dataclass(frozen=True)
class Emitter:
    """Makes an action of an element: a dict (or another mapping), or a row with named fields.

    With a key field the document of that id is updated, or made: its other fields stay. Without, every element is a document
    of its own.
    """

    index: str | None  # of all documents; None when there is an index field
    index_field: str | None  # the element's field that names its index
    key_field: str | None  # the element's field that is the document's id, or None
    doc_type: str | None  # mapping type, for Elasticsearch before 8; None for the usual one

    def type_for(self, product: Product) -> str | None:
        """The mapping type to send to a cluster, None for none.

        Raises:
            ConfigurationError: a type is asked for, and the cluster has none.
        """
        if product.major >= _FIRST_WITHOUT_TYPES.get(product.name, 8):
            if self.doc_type not in (None, "_doc"):
                raise ConfigurationError(
                    f"ElasticsearchEmitter: doc_type {self.doc_type!r}: {product.name} {product.version} has no mapping "
                    "types; leave doc_type out"
                )
            return None
        needs_one = product.name == "elasticsearch" and product.major < _FIRST_WITH_ONE_TYPE
        return self.doc_type or ("_doc" if needs_one else None)

    def action(self, element: Any, doc_type: str | None) -> Action:
        """The action of an element.

        Args:
            doc_type: see `type_for`.

        Raises:
            TypeMismatchError: it cannot be written as JSON, or lacks a field.
        """
        named = _fields(element)
        index = self.index if self.index is not None else _text(named, self.index_field, "index")
        key = None if self.key_field is None else _text(named, self.key_field, "document's id")
        document = _json(named, element)
        if key is None:
            return Action(index, None, b"%b\n%b\n" % (_index_head(index, doc_type), document))
        where = {**_place(index, doc_type), "_id": key, "retry_on_conflict": _CONFLICT_RETRIES}
        head = _json({"update": where}, element)
        return Action(index, key, b'%b\n{"doc":%b,"doc_as_upsert":true}\n' % (head, document))


def _place(index: str, doc_type: str | None) -> dict[str, Any]:
    return {"_index": index} if doc_type is None else {"_index": index, "_type": doc_type}


@lru_cache(_KNOWN_HEADS)
def _index_head(index: str, doc_type: str | None) -> bytes:
    """The first line of a document without an id of ours: the same for all of an index."""
    return _json({"index": _place(index, doc_type)}, index)


def _fields(element: Any) -> Any:
    if isinstance(element, Mapping):
        return element
    if isinstance(element, Row):
        names = field_names_of(element)
        if names:
            return element.as_dict()
    raise TypeMismatchError(
        f"an Elasticsearch sink writes dicts and rows with named fields, got {shown(element, _SHOWN_CHARS)} of type "
        f"{type(element).__name__}; make a dict of it in a map() before"
    )


def _text(named: Any, name: str | None, what: str) -> str:
    value = named.get(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    text = "" if value is None else str(value)
    if not text:
        raise TypeMismatchError(
            f"an Elasticsearch sink takes the {what} from the field {name!r}, which is "
            f"{'missing, None' if value is None else 'empty'} in {shown(dict(named), _SHOWN_CHARS)}"
        )
    return text


def _json(value: Any, element: Any) -> bytes:
    try:
        document = value if type(value) is dict else dict(value)
        written = orjson.dumps(document, _plain, orjson.OPT_PASSTHROUGH_DATACLASS)
    except (TypeError, ValueError) as error:  # orjson's own are both
        raise TypeMismatchError(
            f"an Elasticsearch sink cannot write {shown(element, _SHOWN_CHARS)} as JSON: {error.__cause__ or error}"
        ) from None
    if b"null" in written and _has_nan(value):
        raise TypeMismatchError(
            f"an Elasticsearch sink cannot write {shown(element, _SHOWN_CHARS)} as JSON: JSON has no NaN and no infinity; "
            "put None there"
        )
    return written


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        if not field_names_of(value):
            raise TypeError(f"the row {shown(value)} has no field names")
        return value.as_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise TypeError(f"JSON has no {value}")
        return str(value)  # exact; a numeric field reads it
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (np.generic, np.ndarray)):
        return _of_numpy(value)
    if isinstance(value, Instant):
        return instant_text(value)
    if (found := _open_fields(value)) is not None:
        return found
    raise TypeError(f"{shown(value)} of type {type(value).__name__} is not JSON")


def _of_numpy(value: np.generic | np.ndarray[Any, Any]) -> Any:
    """As orjson writes it, but for times: of those it cuts what is finer than a microsecond, and NaT becomes 1677."""
    if value.dtype.kind != "M":
        return orjson.Fragment(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
    return list(value) if isinstance(value, np.ndarray) else _moment(value)


def _moment(value: Any) -> str:
    """An ISO time of a np.datetime64; of nanoseconds where it has some."""
    if np.isnat(value):
        raise TypeError("JSON has no NaT; put None there")
    moment = moment_of_numpy(value)
    if moment is None:
        raise TypeError(f"{value} is not of the years 1 to 9999")
    if np.datetime64(moment) == value:
        return moment.isoformat()
    nanos = value.astype("datetime64[ns]")
    if nanos != value:
        raise TypeError(f"{value} is finer than a nanosecond")
    return str(nanos)


def _open_fields(value: Any) -> dict[str, Any] | None:
    """What is written of a dataclass's instance: as orjson, attributes beside its fields too, none with an underscore."""
    found = fields_of(value)
    if found is None:
        return None
    return {name: each for name, each in (found | attributes_of(value)).items() if not name.startswith("_")}


def _has_nan(value: Any) -> bool:
    """Whether a number without a value in JSON is in it, which orjson writes as null."""
    if isinstance(value, Row):
        return any(_has_nan(each) for each in value)
    if isinstance(value, Mapping):
        return any(_has_nan(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(_has_nan(each) for each in value)
    if isinstance(value, Enum):
        return _has_nan(value.value)
    if (found := _open_fields(value)) is not None:
        return any(_has_nan(each) for each in found.values())
    if isinstance(value, (np.ndarray, np.generic)):
        return _has_nan(value.tolist())
    return isinstance(value, float) and value - value != 0  # NaN or infinite
