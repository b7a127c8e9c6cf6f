"""Puts a trace together from its rows: what it was asked, what it answered, what happened, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from operations.importers._cells import decoded, instant, is_score_column, loosened, shown_time
from operations.importers._fields import OBSERVATION, SCORE, TRACE, Shape, Shapes, ValuesConflict
from operations.importers._intake import LOOSE, PLAIN, UNATTACHED, Filed, Places
from operations.importers._json_values import loads, shortened
from operations.importers._scores import PLACED as SCORE_PLACED
from operations.importers._scores import number_of, score_of
from operations.importers._spans import PLACED as SPAN_PLACED
from operations.importers._spans import Span, SpanReader, says_root
from operations.importers._tally import Tally

PLACED = ("id", "timestamp", "name", "session_id", "user_id", "tags", "input", "output")
_TEXTS = ("name", "session_id", "user_id", "version", "release", "environment")
"""Fields of a trace that are text: a list there is a score column of the same name that took the field's place."""

_UNSAID = frozenset(("null", "not_exported"))
"""Statuses of a content that the row does not say."""

_METRICS = frozenset(("latency", "total_cost", "latency_ms"))
_OF_TRACE = (("name", "trace_name"), ("session_id", "session_id"), ("user_id", "user_id"))
"""What observations say of their trace: (field of the trace, field of the observation)."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How traces are read: mappings are {canonical: source}, for trace, observation and score."""

    namespace: str
    mappings: tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]] = ({}, {}, {})
    json_columns: tuple[str, ...] = ()
    root_observation_name: str | None = None


@dataclass(slots=True, eq=False)
class _Read:
    """A row that was filed, read again."""

    filed: Filed
    row: dict[str, Any]
    marks: dict[str, str]
    shape: Shape

    @property
    def id(self) -> object:
        """What the row says is its id; None where it has none."""
        return self.shape.value(self.row, "id")


def shapes_of(settings: Settings) -> tuple[Shapes, ...]:
    """Returns how rows of each role are read, before any was."""
    placed = (PLACED, SPAN_PLACED, SCORE_PLACED)
    return tuple(Shapes(role, settings.mappings[role], placed[role]) for role in (TRACE, OBSERVATION, SCORE))


class Assembler:
    """Makes records of the rows of one trace at a time; what it tells of them is of all together."""

    def __init__(self, settings: Settings, files: Sequence[str], tally: Tally) -> None:
        """`files` are the names that locators show, by number."""
        self._settings = settings
        self._places = Places(files)
        self._tally = tally
        self._json = frozenset(settings.json_columns)
        self.shapes = shapes_of(settings)
        self._spans = SpanReader(self.shapes[OBSERVATION], settings.json_columns, tally)

    def record(self, rows: Sequence[Filed]) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """Returns the record of the rows of one trace, and the scores that belong to no record.

        Raises:
            ValuesConflict: Two rows say different things about the same.
        """
        read = [self._read(filed) for filed in rows]
        by_role: tuple[list[_Read], ...] = ([], [], [])
        for one in read:
            if one.shape.twins:
                self._check_twins(one)
            by_role[one.filed.role].append(one)
        own, seen, rated = by_role
        if rows[0].trace != UNATTACHED:
            self._check_project(read)
        trace = self._single(own, TRACE) if own else None
        spans = [
            self._spans.read(
                one.row, one.shape, one.marks, self._places.locator(one.filed), loose=bool(one.filed.flags & LOOSE)
            )
            for one in self._distinct(seen, OBSERVATION)
        ]
        scores = [
            score_of(one.row, one.shape, one.marks, self._places.locator(one.filed), self._tally)
            for one in self._distinct(rated, SCORE)
        ]
        scores.sort(key=lambda score: (score.get("at") or "", score["id"] or "", score["name"] or ""))
        counts = self._tally.counts
        counts["observations"] += len(spans)
        counts["scores"] += len(scores)
        if trace is None and not spans:
            for score in scores:
                if score.get("trace_id") is not None:
                    self._tally.warn("missing trace for scores, in this export", f"score {score['id']}"[:80])
            counts["scores_unattached"] += len(scores)
            return None, scores
        counts["traces" if trace else "traces_without_row"] += 1
        return self._record(rows[0].trace.decode("utf-8", "surrogatepass"), trace, spans, scores, rows[0]), []

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _read(self, filed: Filed) -> _Read:
        row = orjson.loads(filed.payload) if filed.flags & PLAIN else loads(filed.payload)
        marks = loads(filed.marks.encode()) if filed.marks else {}
        return _Read(filed, row, marks, self.shapes[filed.role].of(row))

    def _check_twins(self, one: _Read) -> None:
        """Refuses a row that says the same thing twice, and differently."""
        for canonical, first, second in one.shape.twins:
            left, right = one.row[first], one.row[second]
            if left != right and None not in (left, right) and "" not in (left, right):
                place = self._places.shown(one.filed)
                raise ValuesConflict(
                    subject=f"{place}",
                    field=canonical,
                    left=shortened(left),
                    right=shortened(right),
                    left_place=first,
                    right_place=second,
                )

    def _check_project(self, read: Sequence[_Read]) -> None:
        """Refuses rows of two projects: an id is a project's own, so they are not of one trace."""
        first: _Read | None = None
        for one in read:
            given = one.shape.value(one.row, "project_id")
            if given in (None, ""):
                continue
            first = first or one
            known = first.shape.value(first.row, "project_id")
            if given != known:
                raise ValuesConflict(
                    subject=f"trace {one.filed.trace.decode('utf-8', 'replace')}",
                    field="project_id",
                    left=shortened(known),
                    right=shortened(given),
                    left_place=self._places.shown(first.filed),
                    right_place=self._places.shown(one.filed),
                )

    def _distinct(self, rows: Sequence[_Read], role: int) -> list[_Read]:
        """Returns one row for each id; a row without one stands for itself."""
        by_id: dict[str, list[_Read]] = {}
        for one in rows:
            found = one.id
            if found is None or found == "":
                if role == OBSERVATION:
                    self._tally.warn("observation without an id", self._places.shown(one.filed))
                by_id[f"n{one.filed.number}"] = [one]
            else:
                by_id.setdefault(f"i{found}", []).append(one)
        return [group[0] if len(group) == 1 else self._single(group, role) for group in by_id.values()]

    def _single(self, rows: Sequence[_Read], role: int) -> _Read:
        """Returns the row that counts among rows of one id: the latest version, where the format has versions."""
        best = rows[0]
        for one in rows[1:]:
            self._tally.counts["duplicates_merged"] += 1
            if one.row == best.row:
                continue
            mine, other = _updated(best), _updated(one)
            if mine is None or other is None or mine == other:
                raise self._conflict(best, one, role)
            best = one if other > mine else best
        return best

    def _conflict(self, left: _Read, right: _Read, role: int) -> ValuesConflict:
        names = [name for name in {**left.row, **right.row} if left.row.get(name) != right.row.get(name)]
        name = names[0] if names else "the set of fields"
        kind = ("trace", "observation", "score")[role]
        given = left.id
        return ValuesConflict(
            subject=f"{kind} {given}",
            field=name,
            left=shortened(left.row.get(name)),
            right=shortened(right.row.get(name)),
            left_place=self._places.shown(left.filed),
            right_place=self._places.shown(right.filed),
        )

    # -- the record ----------------------------------------------------------------------------------------------------

    def _record(
        self, trace_id: str, trace: _Read | None, spans: list[Span], scores: list[dict[str, Any]], first: Filed
    ) -> dict[str, Any]:
        tally = self._tally
        missing: list[str] = []
        known: dict[str, Any] = {}
        if trace is None:
            missing.append("trace_row")
            tally.warn("missing trace for observations", f"trace {trace_id[:60]} of observation {spans[0].id[:60]}")
            if not self._settings.mappings[TRACE]:
                known = _of_trace(spans)
        found: dict[str, Any] = {
            "source": {"namespace": self._settings.namespace, "trace_id": trace_id},
            "trace_row": trace is not None,
            "locators": [self._places.locator(trace.filed if trace else first)],
        }
        contents: dict[str, dict[str, Any]] = {}
        if trace is not None:
            contents = self._trace_fields(trace, found)
        for name, value in known.items():
            if name == "name":
                found["name"] = value
            else:
                found["source"][name] = value
        roots = self._roots(spans, missing)
        for name in ("input", "output"):
            found[name] = self._content(name, contents.get(name), roots)
            if found[name]["status"] in _UNSAID:
                missing.append(f"trace_{name}")
        found["log"] = {"events": self._spans.events(spans)}
        if scores:
            found["scores"] = scores
        if missing:
            found["missing"] = missing
        return found

    def _roots(self, spans: list[Span], missing: list[str]) -> list[Span]:
        """Returns the observations without a parent, and notes what is not known of the others."""
        tally = self._tally
        ids = {span.id for span in spans}
        lost = [span for span in spans if span.parent and span.parent not in ids]
        roots = [span for span in spans if span.parent == "" or (span.parent not in ids and says_root(span))]
        tally.counts["roots"] += len(roots)
        if lost or any(span.parent is None for span in spans):
            missing.append("parent_observations")
        if lost:
            tally.counts["parents_unknown"] += len(lost)
            tally.warn("parent not in the export", f"observation {lost[0].id[:80]}")
        if not spans:
            missing.append("observations")
        return roots

    def _content(self, name: str, own: dict[str, Any] | None, roots: list[Span]) -> dict[str, Any]:
        """Returns the trace's input or output: its own, or that of exactly one root."""
        if own is not None and own["status"] not in _UNSAID:
            return {**own, "source": "trace"}
        wanted = self._settings.root_observation_name
        chosen = roots
        if wanted is not None:
            chosen = [span for span in roots if span.shape.value(span.row, "name") == wanted]
        if len(chosen) == 1:
            value = getattr(chosen[0], name)
            if value["status"] not in _UNSAID:
                return {**value, "source": f"observation:{chosen[0].id}"}
            return own or dict(value)
        if len(chosen) > 1:
            self._tally.warn(f"{name} unknown, several roots", f"observation {chosen[0].id[:80]}")
        return own or {"status": "not_exported"}

    def _trace_fields(self, trace: _Read, found: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Reads the trace's own row into `found`. Returns its input and output."""
        shape = trace.shape
        shape.rows += 1
        fidelity = {self.shapes[TRACE].canonical(name): status for name, status in trace.marks.items()}
        values = {canonical: trace.row[name] for canonical, name in shape.names.items()}
        metadata: dict[str, Any] = {}
        for name, canonical in shape.rest:
            metadata[canonical] = trace.row[name]
        for name in ("input", "output"):
            if is_score_column(values.get(name)) and name not in self._settings.mappings[TRACE]:
                self._tally.warn("a list of numbers may be a score of that name", f"trace field {name}")
        contents: dict[str, dict[str, Any]] = {
            name: self._cell(trace, shape, name, values[name], fidelity)
            for name in ("input", "output")
            if name in values
        }
        self._take_over(values, metadata, shape, fidelity, found)
        if values.get("timestamp"):
            found["at_text"] = str(values["timestamp"])
            if when := instant(values["timestamp"]):
                found["at"] = shown_time(when)
        for canonical, value in {**values, **metadata}.items():
            if value is None:
                self._tally.null(TRACE, canonical)
        for canonical, status in fidelity.items():
            self._tally.marks[TRACE, canonical, status] += 1
        metrics = {
            name: number  # the API writes -1 for what it was asked to leave out
            for name in _METRICS
            if (number := number_of(metadata.get(name))) is not None and number >= 0
        }
        found |= {
            name: value
            for name, value in (("runtime_metadata", metadata), ("metrics", metrics), ("fidelity", fidelity))
            if value
        }
        return contents

    def _take_over(
        self,
        values: dict[str, Any],
        metadata: dict[str, Any],
        shape: Shape,
        fidelity: dict[str, str],
        found: dict[str, Any],
    ) -> None:
        """Puts texts and tags in their places, and what does not fit there into the metadata."""
        sources = shape.sources
        for canonical in (*metadata, "tags"):
            value = metadata.get(canonical, values.get(canonical))
            name = sources.get(canonical)
            if isinstance(value, str) and value and (name in self._json or canonical == "metadata"):
                cell = decoded(value)
                if cell.status == "unparsable":
                    fidelity[canonical] = "unparsable"
                (values if canonical in values else metadata)[canonical] = cell.value
        for canonical in _TEXTS:
            value = values.get(canonical, metadata.get(canonical))
            if isinstance(value, list):
                fidelity[canonical] = "collided"
                self._tally.warn("a score column took a field's place", f"trace field {canonical}")
                metadata[canonical] = value
            elif canonical in values and value not in (None, ""):
                holder = found if canonical == "name" else found["source"]
                holder[canonical] = value if isinstance(value, str) else str(value)
        tags = values.get("tags")
        if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
            found["tags"] = tags
        elif tags not in (None, ""):
            metadata["tags"] = tags

    def _cell(
        self,
        trace: _Read,
        shape: Shape,
        name: str,
        value: Any,  # noqa: ANN401 - JSON
        fidelity: dict[str, str],
    ) -> dict[str, Any]:
        if value is None:
            return {"status": "null"}
        if value == "":
            return {"status": "empty"}
        if fidelity.get(name) == "unparsable":
            return {"status": "unparsable", "value": value}
        if not isinstance(value, str):
            return {"status": "value", "value": value}
        if shape.names[name] in self._json or name in self._json:
            cell = decoded(value)
            if cell.double:
                self._tally.warn("double_encoded_json in", self._places.shown(trace.filed))
            if cell.status == "unparsable":
                fidelity[name] = "unparsable"
                self._tally.warn(f"{name} is no JSON and stays text", self._places.shown(trace.filed))
            return {"status": cell.status, "value": cell.value}
        return {"status": "value", "value": loosened(value) if trace.filed.flags & LOOSE else value}


def _updated(one: _Read) -> str | None:
    """When the row was changed last, where its format says it."""
    for name in ("updated_at", "updatedAt"):
        if (found := instant(one.row.get(name))) is not None:
            return shown_time(found)
    return None


def _of_trace(spans: Sequence[Span]) -> dict[str, str]:
    """Returns what all observations that say something of their trace agree on."""
    found: dict[str, str] = {}
    for name, canonical in _OF_TRACE:
        values = (span.row[source] for span in spans if (source := span.shape.sources.get(canonical)) is not None)
        said = {value for value in values if isinstance(value, str) and value}
        if len(said) == 1:
            found[name] = said.pop()
    return found
