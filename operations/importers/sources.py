"""The registry of formats that evidence is imported from, and how one is added.

A format is a module `_<kind>.py` with a `FORMAT`, listed in `FORMATS` below; its kind stands in `SourceKind`
(`storage.schema.traces`), which is what a request may name. `EvidenceImport` knows nothing of formats. It opens each
file, unpacks and hashes it, counts rows, tells progress, isolates damaged rows within `max_damaged`, and gives the
format a `Feed`; the format, a `Source` made by `FORMAT.open(options)` for each import, says

* `find(path)`: which files it reads; `ExportFile.role` is a number that `roles` names;
* `rows(file, opened)`: how a file is cut into rows, mostly `rows_of(opened)`; JSON of its own and archives differ;
* `records(feed)`: the Records, as `ImportedRecord` takes them without `id` and `n`. Rows come from `feed.rows(number)`
  and are not masked: what is kept of one goes through `feed.guard.masked(value, raw)` first. Rows of one Record that do
  not stand together are brought together with a `Sorter(feed.runs)` and `_grouping.groups`, closed in a `finally`.
  A row that cannot be used is `feed.damage(number, Damage(…))`; a score of no Record is `feed.loose(score)`;
* counts and warnings go to `feed.tally`: `counts[name]`, `outcome(field, outcome)` for what was kept of each canonical
  field (`kept`, `lossy`, `unknown`, `unparsable`, `collided`), `warn(about, example)` with a masked example;
* `fields(tally)`: those outcomes, mostly `tally.outcomes()`; `completeness(partial=…)`; `profile`.

For a dry run, `FORMAT.role_of(row)` tells by content what a row is. The format that recognises most of a sample wins,
an earlier one of `FORMATS` where two are even, and completes the suggestion in `FORMAT.suggest`; rows that none
recognises are rows of results.

The Records' numbers, and the order in which `records` yields, must not depend on the order or packing of files.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from operations.importers import _batch_results, _claude_code, _codex, _inspect, _langfuse, _otel
from operations.importers._source import Format, Options, Source

FORMATS: Mapping[str, Format] = MappingProxyType({
    one.kind: one
    for one in (
        _inspect.FORMAT,
        _otel.FORMAT,
        _codex.FORMAT,
        _claude_code.FORMAT,
        _langfuse.FORMAT,
        _batch_results.FORMAT,
    )
})  # fmt: skip
"""Formats by kind, the more particular first; the last takes any rows."""


def open_source(kind: str, options: Options) -> Source:
    """Returns the reading of one export.

    Raises:
        EvidenceRefused: The options cannot be right for the format.
    """
    return FORMATS[kind].open(options)
