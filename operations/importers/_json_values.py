"""Reads JSON so that it means the same to every reader: the fast way where that is sure, else the strict one."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from operations.importers._rows import MAX_DEPTH, JsonTooDeep
from operations.importers._rows import _depth as depth_of

_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))  # noqa: PLR2004 - every digit as 0
_NINETEEN = b"0" * 19
_WIDE = re.compile(rb"[-+:,\[\s][0-9]{19}")


class NotFinite(str):
    """A number that is none: the text of NaN, of an infinity, or of a number too large to hold."""

    __slots__ = ()


def parse(raw: bytes) -> tuple[dict[str, Any], bool]:
    """Returns a row's value, and whether it is plain. The fast parser reads what means the same to every parser.

    Raises:
        ValueError: It is no JSON object, is too deep, or names a key twice.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        value = None
    if value.__class__ is dict and raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH and orjson.dumps(value) == raw:
        return value, True  # compact JSON that comes back as it was: no key twice, and no number changed
    if value is None or is_wide(raw):
        value = strict(raw.decode("utf-8"))
        plain = False
    else:
        # One key twice, or a key that the count below does not see, is for the slow parser to tell.
        plain = raw.count(b'":') - raw.count(b'\\":') == _keys(value, raw) and b'" :' not in raw
        if not plain:
            value = strict(raw.decode("utf-8"))
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object in { }")  # noqa: TRY004 - what is wrong is the text
    return value, plain


def _keys(value: Any, raw: bytes) -> int:  # noqa: ANN401 - JSON
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and is_deep(value, MAX_DEPTH):
        raise JsonTooDeep(f"it nests deeper than {MAX_DEPTH}")
    return _key_count(value)


def is_deep(value: Any, allowed: int) -> bool:  # noqa: ANN401 - JSON
    """Returns whether objects and arrays nest deeper than is allowed; cheaper than to look for brackets in the text."""
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return allowed == 0 or any(is_deep(item, allowed - 1) for item in items)


def _key_count(value: Any) -> int:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        count = len(value)
        for item in value.values():
            if item.__class__ is dict or item.__class__ is list:
                count += _key_count(item)
        return count
    if isinstance(value, list):
        return sum(_key_count(item) for item in value if item.__class__ is dict or item.__class__ is list)
    return 0


def strict(text: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the value of JSON text; numbers that are none come as `NotFinite`.

    Raises:
        ValueError: It is not JSON, names a key twice, or nests too deep.
    """
    if text.count("[") + text.count("{") > MAX_DEPTH and depth_of(text) > MAX_DEPTH:
        raise JsonTooDeep(f"it nests deeper than {MAX_DEPTH}")
    return json.loads(text, object_pairs_hook=unique, parse_constant=NotFinite, parse_float=finite, parse_int=integer)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object of its pairs.

    Raises:
        ValueError: A key stands there twice.
    """
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it names {twice[:80]!r} twice: {shortened([v for k, v in pairs if k == twice])}")
    return value


def finite(text: str) -> float | NotFinite:
    """Returns the number, or its text when it is too large to be one."""
    value = float(text)
    return value if value - value == 0 else NotFinite(text)


def integer(text: str) -> int | NotFinite:
    """Returns the integer, or its text when it has more digits than Python reads."""
    try:
        return int(text)
    except ValueError:
        return NotFinite(text)


def loads(raw: bytes) -> Any:  # noqa: ANN401 - JSON
    """Returns the value of JSON that `dumps` wrote or `parse` read before."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return json.loads(raw)
    return value if orjson.dumps(value) == raw or not is_wide(raw) else json.loads(raw)


def is_wide(raw: bytes) -> bool:
    """Returns whether the JSON may hold an integer beyond 64 bits, of which the fast parser makes a float."""
    return _NINETEEN in raw.translate(_DIGITS) and _WIDE.search(raw) is not None


def dumps(value: object) -> bytes:
    """Returns compact JSON in UTF-8; in ASCII where the value has what UTF-8 or 64 bits cannot hold.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def printable(text: str) -> str:
    """Returns a text that UTF-8 can hold: half a surrogate pair, and a byte of a name that is no text, as an escape."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def shortened(value: object) -> str:
    """Returns a value as JSON that fits into a sentence."""
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return shown if len(shown) <= 200 else shown[:200] + "…"  # noqa: PLR2004 - what a sentence can hold


def why(error: Exception) -> str:
    """Returns what is wrong with a text that could not be read, in words."""
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {error.start} is 0x{error.object[error.start]:02x})"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg}, column {error.colno})"
    if isinstance(error, RecursionError):
        return f"it nests deeper than {MAX_DEPTH}"
    return str(error)
