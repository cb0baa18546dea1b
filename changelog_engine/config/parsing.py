"""Flink's notation for option values: durations, memory sizes, booleans, numbers, maps.

Every function takes the raw text and returns the value, or raises ValueError whose message says what was
expected; the caller adds the key.
"""

from __future__ import annotations

import math
import re

_DURATION_UNITS_NS = {
    name: size
    for size, names in {
        1: "ns nano nanos nanosecond nanoseconds",
        1_000: "us µs micro micros microsecond microseconds",
        1_000_000: "ms milli millis millisecond milliseconds",
        1_000_000_000: "s sec secs second seconds",
        60_000_000_000: "min m mins minute minutes",
        3_600_000_000_000: "h hour hours",
        86_400_000_000_000: "d day days",
    }.items()
    for name in names.split()
} | {"": 1_000_000}  # Flink reads a bare number as milliseconds
_MEMORY_UNITS = {
    name: 1 << 10 * power
    for power, names in enumerate(
        ("b bytes", "k kb kib kibibytes", "m mb mib mebibytes", "g gb gib gibibytes", "t tb tib tebibytes")
    )
    for name in names.split()
} | {"": 1}
_NUMBER_AND_UNIT = re.compile(r"(\d+)\s*([^\d\s]*)")
_ISO_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+)(?:\.(?P<f>\d{1,9}))?S)?)?",
    re.IGNORECASE,
)


def parse_duration_ms(text: str) -> int:
    """Read a duration such as ``500ms``, ``10 min``, ``PT1M30S`` or ``250`` (milliseconds).

    Args:
        text: the duration; units from nanoseconds to days.

    Returns:
        Whole milliseconds, rounded down.

    Raises:
        ValueError: the text is not a duration.
    """
    trimmed = text.strip()
    iso = _ISO_DURATION.fullmatch(trimmed)
    if iso is not None and any(iso.groups()):
        parts = {name: int(value or 0) for name, value in iso.groupdict().items() if name != "f"}
        fraction_ms = int((iso["f"] or "0").ljust(9, "0")) // 1_000_000
        return (((parts["d"] * 24 + parts["h"]) * 60 + parts["m"]) * 60 + parts["s"]) * 1000 + fraction_ms
    match = _NUMBER_AND_UNIT.fullmatch(trimmed)
    unit = _DURATION_UNITS_NS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError("expected a duration such as '500ms', '10 min' or '7 d'")
    return int(match[1]) * unit // 1_000_000


def parse_duration_with_unit_ms(text: str) -> int:
    """As `parse_duration_ms`, for what deletes by age: a 7 that means days would delete what is older than 7 ms.

    Raises:
        ValueError: the text is not a duration, or a number other than 0 that has no unit.
    """
    number = text.strip()
    if number.isdecimal() and int(number):
        raise ValueError(f"{number} has no unit: write {number}d, {number}h, {number}m or {number}s")
    return parse_duration_ms(text)


def parse_memory_bytes(text: str) -> int:
    """Read a memory size such as ``64 mb``, ``1g`` or ``4096`` (bytes). Units are powers of 1024.

    Returns:
        Bytes.

    Raises:
        ValueError: the text is not a memory size.
    """
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    unit = _MEMORY_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError("expected a memory size such as '64 mb' or '1 gb'")
    return int(match[1]) * unit


def parse_bool(text: str) -> bool:
    """Read ``true`` or ``false``, in any case."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("expected true or false")
    return lowered == "true"


def parse_int(text: str) -> int:
    """Read a whole number."""
    try:
        return int(_without_underscores(text))
    except ValueError:
        raise ValueError("expected a whole number") from None


def parse_float(text: str) -> float:
    """Read a number, as Java writes one: ``1.5``, ``1.0E20``, ``Infinity``, ``NaN``."""
    try:
        number = float(_without_underscores(text))
    except ValueError:
        raise ValueError("expected a number") from None
    if not math.isfinite(number) and text.strip().lstrip("+-") not in ("Infinity", "NaN"):
        raise ValueError("expected a number")
    return number


def _without_underscores(text: str) -> str:
    """The text, unless Python alone takes it for a number: ``1_000``."""
    if "_" in text:
        raise ValueError(text)
    return text.strip()


def parse_map(text: str) -> dict[str, str]:
    """Read Flink's map notation, ``key1:value1,key2:value2``.

    Quotes ('...' or "...") protect colons and commas.

    Raises:
        ValueError: a part has no colon, or a quote is left open.
    """
    result: dict[str, str] = {}
    for part in _split_unquoted(text, ","):
        if not part.strip():
            continue
        key, *rest = _split_unquoted(part, ":")
        if not rest:
            raise ValueError("expected pairs such as 'key1:value1,key2:value2'")
        result[_unquote(key)] = _unquote(":".join(rest))
    return result


def _split_unquoted(text: str, separator: str) -> list[str]:
    parts, start, quote = [], 0, ""
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == separator:
            parts.append(text[start:index])
            start = index + 1
    if quote:
        raise ValueError(f"a quote {quote} is left open")
    return [*parts, text[start:]]


def _unquote(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
