"""The format `otel`: spans of OpenTelemetry, with GenAI's or OpenInference's attributes; a trace becomes a Record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operations.importers._cells import has_not_finite
from operations.importers._export_rows import MAX_FIELDS, MAX_KEY, Damage, RawRow, rows_of
from operations.importers._fields import RowTooWide
from operations.importers._folders import ExportFile, Found, find_tables, full_path, names_in
from operations.importers._grouping import groups
from operations.importers._intake import Filed
from operations.importers._json_stream import JsonBroken
from operations.importers._json_values import dumps
from operations.importers._mapping import check_mappings, left_out, not_used
from operations.importers._otel_rows import METRICS, is_document, is_span_row, spans_of
from operations.importers._otel_stream import UNREAD, SpanStream
from operations.importers._otel_traces import LOG, SPAN, TraceBuilder
from operations.importers._sorting import Sorter
from operations.importers._source import Feed, Format, Options, Sample, Suggestion
from operations.importers._streams import Opened, format_of, opened
from operations.importers._tally import Tally
from operations.wording import counted
from storage.masking import Masker
from storage.schema.traces import Completeness

MAPPED = (("input", "output", "case_id", "session_id", "user_id"), ("input", "output"), ())
"""What a mapping may name: an attribute of the root for a trace's field, of each span for an observation's."""

_OWN = ("trace_id", "span_id", "start", "log", UNREAD)
"""What only the rows of an export of OpenTelemetry have."""

_TELLING = ("gen_ai.", "openinference.", "llm.", "input.value", "output.value")


class Otel:
    """Files of spans; see `_source.Source`."""

    roles = ("span",)
    profile = "otel"

    def __init__(self, options: Options) -> None:
        """Keeps the options.

        Raises:
            MappingNotRead: A mapping names a field that is not read by one.
        """
        check_mappings("otel", options.mappings, MAPPED)
        self._options = options
        self._unread: Counter[str] = Counter()
        self._late = 0

    def find(self, path: str) -> Found:
        """Returns the files that hold spans or log records; a file of something else in a folder is skipped.

        Raises:
            EvidenceRefused: There is nothing at the path, or `file_roles` names what is not there.
        """
        found = find_tables(path)
        ignored = left_out(path, names_in(path), self._options)
        found.warnings += not_used("otel", self._options, roots=True)
        strange = {
            file.name: None
            for file in found.files
            if file.name in ignored or (len(found.files) > 1 and self._is_strange(full_path(path, file.name)))
        }
        found.files = [file for file in found.files if file.name not in strange]
        found.skipped += strange
        return found

    def _is_strange(self, path: str) -> bool:
        with opened(path) as file:
            first = next(self._rows(file, 0), None)
        return isinstance(first, RawRow) and not any(first.value.get(name) for name in _OWN)

    def rows(self, file: ExportFile, opened: Opened) -> Iterator[RawRow | Damage]:
        """Yields the spans and log records of a file in one form, each with where it stood."""
        del file
        for row in self._rows(opened, 0):
            if isinstance(row, RawRow) and UNREAD in row.value:
                self._unread[row.value[UNREAD]] += 1
            else:
                yield row

    def _rows(self, file: Opened, number: int) -> Iterator[RawRow | Damage]:
        if format_of(file.path) == "json":
            yield from self._streamed(file)
            return
        for row in rows_of(file):
            if isinstance(row, Damage):
                number += 1
                yield Damage(number, row.line, row.reason, row.torn)
                continue
            if unread := METRICS.intersection(row.value):
                yield RawRow(number, row.line, None, {UNREAD: min(unread)})
            for one in spans_of(row.value, row.pointer):
                number += 1
                yield RawRow(number, row.line, one.pointer, one.value, None, row.plain)

    def _streamed(self, file: Opened) -> Iterator[RawRow | Damage]:
        stream = SpanStream(file.chunks())
        number = 0
        try:
            for number, (pointer, value) in enumerate(stream, 1):
                if value is None:
                    yield Damage(number, None, f"{pointer or 'the document'} is not a JSON object in {{ }}")
                else:
                    yield RawRow(number, None, pointer, value, None, plain=False)
        except JsonBroken as error:
            yield Damage(number + 1, None, error.reason, torn=stream.documents > 0 and stream.ended)
        self._late += stream.late

    def records(self, feed: Feed) -> Iterator[dict[str, Any]]:
        """Yields a record for each trace, whatever the order of the spans.

        Raises:
            ValuesConflict: One span was exported twice, and differently.
            TraceTooLarge: One trace has more than is put together in memory.
            MappingSourceMissing: The mapping names an attribute that no span has.
        RowTooWide: A span has more attributes, or longer names, than any export has.
        """
        sorter = Sorter(feed.runs)
        options = self._options
        files = [file.name for file in feed.found.files]
        builder = TraceBuilder(options.namespace, options.mappings, options.root_observation_name, files, feed.tally)
        some = False
        try:
            for file in range(len(files)):
                for number, row in enumerate(feed.rows(file)):
                    if why := _unusable(row.value):
                        feed.damage(file, Damage(row.number, row.line, why))
                    elif row.value.get("log") is not None and not row.value["trace_id"]:
                        feed.tally.warn("log records of no trace were left out", f"{files[file]} row {row.number}")
                    else:
                        some = True
                        sorter.add(_filed(feed, file, number, row))
            for rows in groups(sorter):
                yield builder.record([Filed._make(row) for row in rows])
        finally:
            sorter.close()
        for name, count in sorted(self._unread.items()):
            feed.tally.warn(f"{name} are no spans and were left out", counted(count, "time"))
        if self._late:
            feed.tally.warn(
                "a resource or scope stands after its spans, and is not kept of them", counted(self._late, "time")
            )
            feed.tally.outcome("span.resource", "lossy", self._late)
        if some:
            builder.check()

    def fields(self, tally: Tally) -> dict[str, dict[str, int]]:
        """Returns what was kept of each field of a trace and a span."""
        return tally.outcomes()

    def completeness(self, *, partial: bool) -> Completeness:
        """No export says of itself that it is whole."""
        return "partial" if partial else "unknown"


def _unusable(value: Mapping[str, Any]) -> str | None:
    if "log" in value:
        return None
    if not value.get("trace_id"):
        return "it names no trace"
    return None if value.get("span_id") else "it has no id"


def _filed(feed: Feed, file: int, number: int, row: RawRow) -> tuple[Any, ...]:
    """Returns a row as it is sorted, in the order of `Filed`, masked."""
    _check_width(row.value.get("attributes") or {})
    wrong = [f"attributes.{k}" for k, v in (row.value.get("attributes") or {}).items() if has_not_finite(v)]
    value, payload = feed.guard.masked(row.value, None)
    role = LOG if "log" in value else SPAN
    key = str(value["trace_id"]).encode("utf-8", "surrogatepass")
    marks = dumps(wrong).decode() if wrong else None
    return (key, role, number, file, row.number, row.line, row.pointer, 0, marks, payload)


def _check_width(attributes: Mapping[str, Any]) -> None:
    """Refuses a span that is none.

    Raises:
        RowTooWide: It has more attributes, or longer names, than any export has.
    """
    if len(attributes) > MAX_FIELDS:
        raise RowTooWide(role="span", reason=f"{len(attributes)} attributes")
    if (longest := max(map(len, attributes), default=0)) > MAX_KEY:
        raise RowTooWide(role="span", reason=f"an attribute's name of {longest} characters")


def _role_of(row: RawRow) -> int | None:
    return 0 if is_document(row.value) or is_span_row(row.value) else None


def _suggest(
    found: Suggestion, path: str, samples: Sequence[Sample], looked: Mapping[str, int | None], masker: Masker
) -> None:
    del path, masker
    found.fits = {name: "span" if role is not None else "ignore" for name, role in looked.items()}
    found.request = {"source_kind": "otel"}
    spans = [
        one.value
        for sample in samples
        for row in sample.rows
        if _role_of(row) is not None
        for one in spans_of(row.value, row.pointer)
    ]
    names = {name for span in spans for name in span.get("attributes") or ()}
    if not any(name.startswith(_TELLING) for name in names):
        found.unknown.append(
            "input and output: no attribute of GenAI or OpenInference; mapping.observation names others"
        )
    found.unknown += [f"span.{name}" for name in ("parent_id", "start", "end") if not any(name in one for one in spans)]
    found.unknown.append("a trace's input and output, unless exactly one span is its root")
    found.message = f"OpenTelemetry: {counted(len(spans), 'span')} in the sample. Send the request in next."


FORMAT = Format(kind="otel", open=Otel, role_of=_role_of, suggest=_suggest)
