"""The format `batch_results`: rows with an output and perhaps scores, read by an explicit mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operations.importers._export_rows import Damage, RawRow, rows_of
from operations.importers._folders import ExportFile, Found, find_tables
from operations.importers._json_columns import json_columns
from operations.importers._results import ResultReader
from operations.importers._scores import number_of
from operations.importers._source import Feed, Format, Options, Sample, Suggestion
from operations.importers._streams import Opened
from operations.importers._tally import Tally
from storage.masking import Masker
from storage.schema.traces import Completeness

_OUTPUTS = ("output", "answer", "response", "completion", "prediction", "result", "actual")
_INPUTS = ("input", "question", "prompt", "query", "request")
_EXPECTED = ("expected", "expected_output", "expected_answer", "ground_truth", "reference", "ideal")
_USUAL = {
    "input": _INPUTS,
    "output": _OUTPUTS,
    "case_id": ("case_id", "id"),
    "repeat": ("repeat",),
    "expected": _EXPECTED,
}
"""Field → columns that it is usually read from, the likeliest first."""
_SCORES = 10
"""How many columns a dry run takes for scores."""
_TEXT = 80


class BatchResults:
    """A table of results; see `_source.Source`."""

    roles = ("row",)
    profile = "batch_results"

    def __init__(self, options: Options) -> None:
        """Keeps the mapping.

        Raises:
            ResultsMappingMissing: It names neither an output nor scores.
        """
        self._reader = ResultReader(options.columns, options.namespace, options.json_columns)

    def find(self, path: str) -> Found:
        """Returns every file in a format that is read."""
        return find_tables(path)

    def rows(self, file: ExportFile, opened: Opened) -> Iterator[RawRow | Damage]:
        """Yields the rows of a file."""
        del file
        return rows_of(opened)

    def records(self, feed: Feed) -> Iterator[dict[str, Any]]:
        """Yields a record for each row.

        Raises:
            ResultsColumnMissing: The mapping names a column that no row has.
        """
        some = False
        for number, file in enumerate(feed.found.files):
            for row in feed.rows(number):
                some = True
                value, _ = feed.guard.masked(row.value, row.raw)
                place = {"line": row.line, "pointer": row.pointer}
                locator = {"file": file.name, "row": row.number} | {k: v for k, v in place.items() if v is not None}
                yield self._reader.record(value, locator, case=row.value)
        if some:
            self._reader.check()
        feed.tally.counts.update({k: n for k, n in self._reader.scores.items() if self._reader.counts and n})

    def fields(self, tally: Tally) -> dict[str, dict[str, int]]:
        """Returns what was kept of each column."""
        del tally
        return self._reader.fields()

    def completeness(self, *, partial: bool) -> Completeness:
        """Rows of results never say what the agent did."""
        del partial
        return "limited"


def _role_of(row: RawRow) -> int | None:
    """Any row may be one of results."""
    del row
    return 0


def _suggest(
    found: Suggestion, path: str, samples: Sequence[Sample], roles: Mapping[str, int | None], masker: Masker
) -> None:
    del path, roles
    columns: dict[str, None] = {}
    for sample in samples:
        found.fits[sample.name] = "row"
        for row in sample.rows:
            columns |= dict.fromkeys(row.value)
    found.columns = [str(masker.text(name[:_TEXT])) for name in list(columns)[:40]]
    mapping: dict[str, Any] = {
        wanted: name
        for wanted, usual in _USUAL.items()
        if (name := next((name for name in usual if name in columns), None)) is not None
    }
    if scores := _scores([name for name in columns if name not in mapping.values()], samples):
        mapping["scores"] = {name: name for name in scores}
    found.request = {"source_kind": "batch_results", "mapping": mapping}
    if "output" not in mapping:
        found.supply = {"mapping": "output (or scores), and input, case_id, repeat, expected: each a column"}
    found.unknown = [f"row.{name}" for name in ("input", "output", "case_id") if name not in mapping]
    found.unknown.append("what the agent did: rows of results hold no observations")
    found.message = "Rows of results, by the look of them. Check the mapping in next before you send it."
    if columns_of_json := json_columns(samples):
        found.request["json_columns"] = columns_of_json


def _scores(columns: Sequence[str], samples: Sequence[Sample]) -> list[str]:
    """Returns the columns that are called a score, and hold a number or a truth wherever they hold something."""
    found = []
    for name in columns:
        given = [row.value[name] for sample in samples for row in sample.rows if row.value.get(name) not in (None, "")]
        if "score" in name.lower() and given and all(number_of(v) is not None or isinstance(v, bool) for v in given):
            found.append(name)
    return found[:_SCORES]


FORMAT = Format(kind="batch_results", open=BatchResults, role_of=_role_of, suggest=_suggest)
