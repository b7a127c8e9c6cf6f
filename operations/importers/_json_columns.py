"""Tells which fields of a sample hold JSON as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operations.importers._cells import decoded
from operations.importers._source import Sample
from operations.importers._streams import format_of

SHOWN = 20
_CONTENTS = ("input", "output", "expected")


def json_columns(samples: Sequence[Sample]) -> list[str]:
    """Returns the columns of tables whose cells hold JSON, and contents of other rows that are always JSON as text."""
    found: dict[str, None] = {}
    for sample in samples:
        if format_of(sample.name) in ("csv", "parquet"):
            for row in sample.rows:
                found |= {name: None for name, cell in row.value.items() if str(cell).lstrip()[:1] in ("{", "[")}
                found |= {name: None for name, cell in row.value.items() if str(cell)[:2] in ('"{', '"[')}
        else:
            found |= {name: None for name in _CONTENTS if _is_json([row.value.get(name) for row in sample.rows])}
    return list(found)[:SHOWN]


def _is_json(values: list[Any]) -> bool:
    """Whether there are texts among the values, and each of them is an object or an array."""
    texts = [value for value in values if isinstance(value, str) and value]
    return bool(texts) and all(text.lstrip()[:1] in ("{", "[") and decoded(text).status == "value" for text in texts)
