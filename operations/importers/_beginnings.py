"""Shows what a JSON document begins with that is longer than is read at once, as a document of its own."""

from __future__ import annotations

import re
from typing import Any

from operations.importers._json_values import strict

LOOKED_AT = 1 << 20
"""Bytes of its beginning that are looked at."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]|"', re.DOTALL)
_CLOSES = {"{": "}", "[": "]"}


def beginning(raw: bytes) -> dict[str, Any] | None:
    """Returns the object that begins in `raw`, without what is cut off there; None where none can be told."""
    text = raw[:LOOKED_AT].decode("utf-8-sig", "ignore")
    opened: list[str] = []
    end, closing = 0, ""
    for token in _TOKEN.finditer(text):
        match token.group():
            case "{" | "[" as bracket:
                opened.append(_CLOSES[bracket])
            case "}" | "]" as bracket:
                if not opened or opened.pop() != bracket:
                    return None
            case ",":
                end, closing = token.start(), "".join(reversed(opened))
            case '"':  # a text that is cut off
                break
            case _:
                pass
    try:
        value = strict(text[:end] + closing)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
