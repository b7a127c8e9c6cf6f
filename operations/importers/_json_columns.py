"""Tells which columns of a sampled CSV hold JSON as text."""

from __future__ import annotations

from collections.abc import Sequence

from operations.importers._source import Sample
from operations.importers._streams import format_of

SHOWN = 20


def json_columns(samples: Sequence[Sample]) -> list[str]:
    """Returns the columns of CSV files whose cells hold JSON."""
    found: dict[str, None] = {}
    for sample in samples:
        if format_of(sample.name) in ("csv", "parquet"):
            for row in sample.rows:
                found |= {name: None for name, cell in row.value.items() if str(cell).lstrip()[:1] in ("{", "[")}
                found |= {name: None for name, cell in row.value.items() if str(cell)[:2] in ('"{', '"[')}
    return list(found)[:SHOWN]
