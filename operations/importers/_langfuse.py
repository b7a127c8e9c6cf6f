"""The format `langfuse`: traces, observations and scores, in files of their own or in bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operations.importers._export_rows import Damage, RawRow, rows_of
from operations.importers._fields import CORE, OBSERVATION, SCORE, TRACE, Shapes
from operations.importers._folders import ExportFile, Found, find_files
from operations.importers._grouping import groups
from operations.importers._intake import BUNDLE, Unplaced
from operations.importers._json_columns import json_columns
from operations.importers._json_lines import Block
from operations.importers._langfuse_shares import ASSEMBLE, TAKE, Assembled, Shares, Taken, lines, some_groups
from operations.importers._shares import Record, in_order
from operations.importers._sorting import Row, Sorter
from operations.importers._source import Feed, Format, Options, Sample, Suggestion
from operations.importers._streams import EvidenceRefused, Opened, format_of
from operations.importers._tally import Tally
from operations.importers._traces import Settings, shapes_of
from operations.wording import counted
from storage.masking import Masker
from storage.schema.traces import Completeness

_NAMES = {TRACE: "trace", OBSERVATION: "observation", SCORE: "score", BUNDLE: "bundle"}


class Langfuse:
    """An export of Langfuse; see `_source.Source`."""

    roles = ("trace", "observation", "score", "bundle")

    def __init__(self, options: Options) -> None:
        self._options = options
        self._shapes: tuple[Shapes, ...] = ()
        self._some = False
        """Whether there was a row that could be read."""
        self._ids_only = 0
        self.profile = options.adapter_profile or "by_file"
        self.settings = Settings(
            namespace=options.namespace,
            mappings=options.mappings,
            json_columns=options.json_columns,
            root_observation_name=options.root_observation_name,
        )

    def find(self, path: str) -> Found:
        """Returns the files by role.

        Raises:
            EvidenceRefused: There is nothing, or nothing says what a file holds.
        """
        return find_files(path, self._options.adapter_profile, self._options.file_roles)

    def rows(self, file: ExportFile, opened: Opened) -> Iterator[RawRow | Damage]:
        """Yields the rows of a file."""
        del file
        return rows_of(opened)

    def records(self, feed: Feed) -> Iterator[Record]:
        """Yields a record for each trace, whatever the order of the rows.

        Raises:
            ValuesConflict: Two rows say different things about the same.
            TraceTooLarge: One trace has more than is put together in memory.
            MappingSourceMissing: The mapping names a field that no row has.
        """
        sorter = Sorter(feed.runs)
        work = Shares(feed.guard, self.settings, [file.name for file in feed.found.files])
        self._shapes = shapes = shapes_of(self.settings)
        try:
            for number, file in enumerate(feed.found.files):
                for rows, size in self._filed(feed, work, number, file):
                    sorter.extend(rows, size)
            made = in_order(ASSEMBLE, some_groups(groups(sorter)), work.assemble, Assembled.received, feed.helper)
            for one in made:
                feed.tally.add(one.tally)
                for role, names, count in one.shapes:
                    shapes[role].add(names, count)
                for score in one.loose:
                    feed.loose(score)
                yield from one.records
        finally:
            sorter.close()
        if self._ids_only:
            feed.tally.warn("a trace names its observations or scores only by id", counted(self._ids_only, "id"))
        for of_role in shapes if self._some else ():
            of_role.check()

    def _filed(self, feed: Feed, work: Shares, number: int, file: ExportFile) -> Iterator[tuple[list[Row], int]]:
        """Yields rows of a file as they are sorted, some together, and the bytes of their payloads."""
        if format_of(file.path) == "jsonl":
            # What the project's patterns may take is counted in one place.
            helper = None if feed.guard.has_patterns else feed.helper

            def take(found: Iterator[Block]) -> Iterator[Taken]:
                return in_order(TAKE, lines(number, file.role, found), work.take, Taken.received, helper)

            for taken in feed.taken(number, take):
                self._some |= taken.count > 0
                self._ids_only += taken.ids_only
                yield taken.rows, taken.size
            return
        for row in feed.rows(number):
            self._some = True
            try:
                taken = work.take_row(number, row, file.role)
                self._ids_only += taken.ids_only
                yield taken.rows, taken.size
            except Unplaced as error:
                feed.damage(number, Damage(row.number, row.line, str(error)))

    def fields(self, tally: Tally) -> dict[str, dict[str, int]]:
        """Returns what was kept of each field of a trace, an observation and a score."""
        counts = tally.counts
        return tally.fields(self._shapes, (counts["traces"], counts["observations"], counts["scores"]))

    def completeness(self, *, partial: bool) -> Completeness:
        """No export says of itself that it is whole."""
        return "partial" if partial else "unknown"


def _role_of(row: RawRow) -> int | None:
    value = row.value
    names = set(value)
    if row.around is not None and (row.pointer or "").startswith(("/observations", "/scores", "/traces")):
        return BUNDLE
    if isinstance(value.get("trace"), dict) or isinstance(value.get("observations"), list):
        return BUNDLE
    traced = bool(names & {"traceId", "trace_id"})
    if names & {"dataType", "data_type"} and names & {"value", "stringValue", "string_value"}:
        return SCORE
    if traced and names & {"parentObservationId", "parent_observation_id", "startTime", "start_time"}:
        return OBSERVATION
    if "id" in names and "timestamp" in names and names & {"input", "output", "name", "sessionId", "session_id"}:
        return TRACE
    return None


def _suggest(
    found: Suggestion, path: str, samples: Sequence[Sample], looked: Mapping[str, int | None], masker: Masker
) -> None:
    del masker
    roles = {name: role for name, role in looked.items() if role is not None}
    ignored = [name for name in looked if name not in roles]
    found.fits = {name: _NAMES[role] for name, role in roles.items()} | dict.fromkeys(ignored, "ignore")
    kinds = set(roles.values())
    found.request = {"source_kind": "langfuse", **_told(found.fits, path, roles, ignored)}
    if columns := json_columns(samples):
        found.request["json_columns"] = columns
    for role in (TRACE, OBSERVATION, SCORE):
        rows = [row.value for sample in samples for row in sample.rows if roles.get(sample.name) == role]
        if rows:
            shapes = Shapes(role, {}, ())
            seen = {shapes.canonical(name) for row in rows for name in row}
            lacking = [name for name in CORE[role] if name not in seen and name not in ("observations", "tags")]
            found.unknown += [f"{_NAMES[role]}.{name}" for name in lacking]
    if OBSERVATION in kinds and not kinds & {TRACE, BUNDLE}:
        found.unknown.append("a trace's own input and output, unless exactly one observation is its root")
    found.message = f"Langfuse: {', '.join(sorted({_NAMES[role] for role in kinds}))} rows. Send the request in next."


def _told(fits: Mapping[str, str], path: str, roles: Mapping[str, int], ignored: Sequence[str]) -> dict[str, Any]:
    """Returns what a request has to say of the files, as far as their names do not."""
    kinds = set(roles.values())
    try:
        by_name = {file.name: file.role for file in find_files(path, None, {}).files}
    except EvidenceRefused:
        by_name = {}
    if all(by_name.get(name) == role for name, role in roles.items()):
        return {}
    if ignored:
        return {"file_roles": dict(fits)}
    if kinds == {BUNDLE}:
        return {"adapter_profile": "langfuse_trace_bundle"}
    if kinds == {OBSERVATION}:
        return {"adapter_profile": "langfuse_observation_rows"}
    return {"file_roles": {name: _NAMES[role] for name, role in roles.items()}}


FORMAT = Format(kind="langfuse", open=Langfuse, role_of=_role_of, suggest=_suggest)
