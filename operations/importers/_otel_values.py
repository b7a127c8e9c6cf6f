"""Reads the values of OpenTelemetry's JSON: attributes, ids, times, kinds and status codes, in each form there is."""

from __future__ import annotations

import base64
import binascii
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from operations.importers._cells import instant
from operations.importers._json_values import NotFinite, dumps

TRACE_BYTES, SPAN_BYTES = 16, 8

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
CODES = ("unset", "ok", "error")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)\.(\d{7,9})(Z|[+-]\d\d:?\d\d)?")
_WHOLE = re.compile(r"-?[0-9]{1,24}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_LAST = 253_402_300_800 * 10**9
"""The year 10000 in nanoseconds; what is later is no time."""

_VALUES = frozenset(
    ("stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue",
     "string_value", "bool_value", "int_value", "double_value", "array_value", "kvlist_value", "bytes_value")
)  # fmt: skip


def any_value(given: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns the value of an OTLP `AnyValue`; what has not its form is a value already.

    64-bit integers come as text and become numbers. Bytes stay base64, since JSON has no bytes.
    """
    if not isinstance(given, dict) or len(given) > 1 or not given.keys() <= _VALUES:
        return given
    if not given:
        return None
    ((name, value),) = given.items()
    match name.removesuffix("Value").removesuffix("_value"):
        case "int":
            return whole(value)
        case "double":
            return real(value)
        case "array":
            return [any_value(item) for item in _member(value, "values")]
        case "kvlist":
            return attributes(_member(value, "values"))
        case _:
            return value


def _member(value: Any, name: str) -> list[Any]:  # noqa: ANN401 - JSON
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def attributes(given: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Returns attributes as an object: OTLP's list of keys and values, or what is an object already.

    A key that stands there twice has the values of both, as `key`, `key#2` …, since nothing says which counts.
    """
    if isinstance(given, dict):
        return {str(name): any_value(value) for name, value in given.items()}
    found: dict[str, Any] = {}
    for item in given if isinstance(given, list) else ():
        if not isinstance(item, dict):
            continue
        key = name = str(item.get("key", ""))
        value = any_value(item.get("value"))
        number = 1
        while name in found and found[name] != value:
            number += 1
            name = f"{key}#{number}"
        found[name] = value
    return found


def whole(given: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns an integer, also from its text; anything else as it is."""
    if isinstance(given, str) and _WHOLE.fullmatch(given):
        return int(given)
    return given


def real(given: Any) -> Any:  # noqa: ANN401 - JSON
    """Returns a number, also from its text; one that is not finite as the text that it is shown as."""
    if isinstance(given, str) and not isinstance(given, NotFinite):
        try:
            value = float(given)
        except ValueError:
            return given
        return value if math.isfinite(value) else NotFinite(given)
    return given


def text_of(given: Any) -> str | None:  # noqa: ANN401 - JSON
    """Returns what should be a text; what is none is shown as JSON."""
    return given if given is None or isinstance(given, str) else dumps(given).decode()


def identifier(given: Any, size: int) -> str:  # noqa: ANN401 - JSON
    """Returns an id of `size` bytes in lower-case hexadecimal; one of another form as it is; nothing for none.

    Ids are hexadecimal in OTLP's JSON, base64 in protobuf's, and begin with 0x where Python's SDK shows them. One of
    zeros is none by the specification.
    """
    if given is None or given == "":
        return ""
    text = str(given)
    bare = text[2:] if text[:2] in ("0x", "0X") else text
    if len(bare) != 2 * size or not _HEX.fullmatch(bare):
        try:
            decoded = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return text
        if len(decoded) != size:
            return text
        bare = decoded.hex()
    return "" if bare.strip("0") == "" else bare.lower()


def nanoseconds(given: Any) -> int | None:  # noqa: ANN401 - JSON
    """Returns a time in nanoseconds since 1970: from OTLP's count, as number or text, or from ISO 8601; else None."""
    value = whole(given)
    if isinstance(value, str):
        value = _iso(value)
    if isinstance(value, float) and math.isfinite(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value < _LAST else None


def _iso(text: str) -> int | None:
    fine = _ISO.fullmatch(text)
    found = instant(fine[1] + (fine[3] or "") if fine else text)
    if found is None:
        return None
    count = (found - _EPOCH) // timedelta(microseconds=1) * 1000
    return count + int(fine[2].ljust(9, "0")) if fine else count


def shown(count: int) -> str:
    """Returns nanoseconds since 1970 as ISO 8601 in UTC, cut to the microsecond."""
    return (_EPOCH + timedelta(microseconds=count // 1000)).isoformat(timespec="microseconds")[:26] + "Z"


def kind(given: Any) -> str | None:  # noqa: ANN401 - JSON
    """Returns a span's kind in lower case, from its number or any of its names."""
    return _named(given, KINDS, ("SPAN_KIND_", "SpanKind."))


def code(given: Any) -> str | None:  # noqa: ANN401 - JSON
    """Returns a status code in lower case, from its number or any of its names."""
    return _named(given, CODES, ("STATUS_CODE_", "StatusCode."))


def _named(given: Any, names: tuple[str, ...], prefixes: tuple[str, ...]) -> str | None:  # noqa: ANN401 - JSON
    if given is None or given == "":
        return None
    number = whole(given)
    if isinstance(number, int) and not isinstance(number, bool):
        return names[number] if 0 <= number < len(names) else str(number)
    text = str(given)
    for prefix in prefixes:
        text = text.removeprefix(prefix)
    return text.lower()
