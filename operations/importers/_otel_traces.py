"""Puts a trace together from its spans: what it was asked, what it answered, what happened, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operations.importers._fields import MappingSourceMissing, ValuesConflict
from operations.importers._intake import Filed, Places
from operations.importers._json_values import dumps, loads, shortened
from operations.importers._otel_events import events_of, ordered
from operations.importers._otel_messages import plain_text, read
from operations.importers._otel_spans import OtelSpan, SpanReader, timed
from operations.importers._otel_values import text_of
from operations.importers._scores import number_of
from operations.importers._tally import Tally
from operations.importers._tool_lists import name_tools
from operations.trajectories.settling import settled

SPAN, LOG = 0, 1
_EVALUATION = "gen_ai.evaluation."
_NONE = object()
SHOWN = 20
"""Names of attributes that a refusal shows."""


class TraceBuilder:
    """Makes records of the spans of one trace at a time. One serves a whole import."""

    def __init__(
        self,
        namespace: str,
        mappings: tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]],
        root_name: str | None,
        files: Sequence[str],
        tally: Tally,
    ) -> None:
        """`mappings` are {canonical: attribute} for traces and spans; `files` the names that locators show."""
        self._namespace = namespace
        self._of_trace = mappings[0]
        self._of_span = mappings[1]
        self._root_name = root_name
        self._places = Places(files)
        self._tally = tally
        self._reader = SpanReader(mappings[1], tally)
        self._mapped: set[str] = set()
        self._seen: dict[str, None] = {}

    def record(self, rows: Sequence[Filed]) -> dict[str, Any]:
        """Returns the record of the rows of one trace.

        Raises:
            ValuesConflict: One span was exported twice, and differently.
        """
        logs = self._logs([row for row in rows if row.role == LOG])
        spans = []
        for one, value in self._distinct([row for row in rows if row.role == SPAN]):
            own = logs.pop(value["span_id"], [])
            span = self._reader.read(value, own, self._places.locator(one))
            if one.marks:
                span.marks |= dict.fromkeys(loads(one.marks.encode()), "unparsable")
            spans.append(span)
            if len(self._seen) < SHOWN:
                self._seen |= dict.fromkeys(value.get("attributes") or ())
        counts = self._tally.counts
        counts["traces"] += 1
        counts["spans"] += len(spans)
        return self._record(rows[0], spans, [log for _, group in sorted(logs.items()) for log in group])

    def check(self) -> None:
        """Refuses a mapping that led nowhere.

        Raises:
            MappingSourceMissing: No span had the attribute.
        """
        for role, mapping, seen in (
            ("trace", self._of_trace, self._mapped),
            ("observation", self._of_span, self._reader.mapped),
        ):
            for canonical, source in mapping.items():
                if source not in seen:
                    raise MappingSourceMissing(
                        role=role, canonical=canonical, source=source, found=tuple(self._seen)[:SHOWN]
                    )

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _distinct(self, rows: Sequence[Filed]) -> list[tuple[Filed, dict[str, Any]]]:
        """Returns one row for each span; the format orders no versions, so two that differ are a conflict."""
        found: dict[str, tuple[Filed, dict[str, Any]]] = {}
        for one in rows:
            value: dict[str, Any] = loads(one.payload)
            before = found.setdefault(value["span_id"], (one, value))
            if before[0] is one:
                continue
            self._tally.counts["duplicates_merged"] += 1
            if before[1] != value:
                raise self._conflict(before, (one, value))
        return list(found.values())

    def _conflict(self, left: tuple[Filed, dict[str, Any]], right: tuple[Filed, dict[str, Any]]) -> ValuesConflict:
        name, ours, theirs = _difference(left[1], right[1])
        return ValuesConflict(
            subject=f"span {left[1]['span_id']} of trace {left[1]['trace_id']}",
            field=name,
            left=shortened(ours),
            right=shortened(theirs),
            left_place=self._places.shown(left[0]),
            right_place=self._places.shown(right[0]),
        )

    def _logs(self, rows: Sequence[Filed]) -> dict[str, list[dict[str, Any]]]:
        """Returns span id → its log records, in an order that their files do not decide; a copy is left out."""
        found: dict[str, dict[bytes, dict[str, Any]]] = {}
        for one in rows:
            value = loads(one.payload)
            own = found.setdefault(value["span_id"], {})
            key = dumps(value["log"])
            self._tally.counts["duplicates_merged" if key in own else "log_records"] += 1
            own.setdefault(key, {**value["log"], "locator": self._places.locator(one)})
        return {span_id: [own[key] for key in sorted(own)] for span_id, own in found.items()}

    # -- the record ----------------------------------------------------------------------------------------------------

    def _record(self, first: Filed, spans: list[OtelSpan], lost: list[dict[str, Any]]) -> dict[str, Any]:
        missing: list[str] = []
        roots = self._roots(spans, missing)
        chosen = roots
        if self._root_name is not None:
            chosen = [span for span in roots if span.name == self._root_name]
        root = chosen[0] if len(chosen) == 1 else None
        source = {"namespace": self._namespace, "trace_id": first.trace.decode("utf-8", "surrogatepass")}
        found: dict[str, Any] = {"source": source, "trace_row": False}
        for name in ("session_id", "user_id"):
            self._agreed(name, spans, source, self._own(name, root))
        for name in ("input", "output"):
            found[name] = self._content(name, root, chosen)
            is_there = found[name]["status"] not in ("not_exported", "null")
            self._tally.outcome(f"trace.{name}", "kept" if is_there else "unknown")
            if not is_there:
                missing.append(f"trace_{name}")
        if (case_id := self._own("case_id", root)) is not None:
            found["case_id"] = str(case_id)
        log: dict[str, Any] = {"state": "unknown"}
        if root is not None:
            found["name"] = root.name
            found |= {name: root.times[name] for name in ("at", "at_text") if name in root.times}
            found["metrics"] = {k: v for k, v in root.usage.items() if number_of(v) is not None}
            log = _state(root)
        resources = _resources(spans)
        found["scores"] = [score for span in ordered(spans) for score in self._scores(span, source["trace_id"])]
        found["locators"] = [root.locator if root is not None else self._places.locator(first)]
        log["events"] = events_of(spans, resources)
        self._add_lost(log["events"], lost)
        settled(log["events"])
        found["log"] = name_tools(log)
        if resources:
            found["runtime_metadata"] = {"resources": resources}
        if missing:
            found["missing"] = missing
        return {name: value for name, value in found.items() if value not in ([], {}, None)}

    def _roots(self, spans: Sequence[OtelSpan], missing: list[str]) -> list[OtelSpan]:
        """Returns the spans without a parent, and notes what is not known of the others."""
        tally = self._tally
        ids = {span.id for span in spans}
        roots = [span for span in spans if span.parent == ""]
        tally.counts["roots"] += len(roots)
        lost = sorted(span.id for span in spans if span.parent and span.parent not in ids)
        if lost or any(span.parent is None for span in spans):
            missing.append("parent_observations")
        if lost:
            tally.counts["parents_unknown"] += len(lost)
            tally.warn("parent not in the export", f"span {lost[0][:80]}")
        if not spans:
            missing.append("observations")
        return roots

    def _content(self, name: str, root: OtelSpan | None, chosen: Sequence[OtelSpan]) -> dict[str, Any]:
        """Returns the trace's input or output: that of exactly one root. One message of one text is that text."""
        if root is None:
            if len(chosen) > 1:
                self._tally.warn(f"{name} unknown, several roots", f"span {min(span.id for span in chosen)[:80]}")
            return {"status": "not_exported"}
        given = self._own(name, root)
        content = read(given) if given is not None else plain_text(getattr(root, name).content)
        return {**content, "source": f"observation:{root.id}"} if content["status"] != "not_exported" else content

    def _own(self, name: str, root: OtelSpan | None) -> Any:  # noqa: ANN401 - JSON
        """Returns the root's attribute that the mapping names for a field of the trace."""
        attribute = self._of_trace.get(name)
        given = (root.value.get("attributes") or {}) if root is not None and attribute is not None else {}
        if attribute in given:
            self._mapped.add(str(attribute))
        return given.get(attribute)

    def _agreed(self, name: str, spans: Sequence[OtelSpan], source: dict[str, Any], own: object) -> None:
        """Notes what the root's mapped attribute says, else what all spans agree on that say something of it."""
        said = {span.said[name] for span in spans if name in span.said} if own is None else {str(own)}
        if len(said) == 1:
            source[name] = said.pop()
        elif said:
            self._tally.warn(f"{name} unknown, spans of one trace differ", f"trace {source['trace_id'][:60]}")
        outcome = "kept" if name in source else "collided" if said else "unknown"
        self._tally.outcome(f"trace.{name}", outcome)

    def _scores(self, span: OtelSpan, trace_id: str) -> list[dict[str, Any]]:
        """Returns the evaluations that the span's events tell. They are evidence, and no verdicts."""
        found = []
        for event in span.events:
            if event.get("name") != "gen_ai.evaluation.result":
                continue
            own = dict(event.get("attributes") or {})
            name, value = text_of(own.pop(f"{_EVALUATION}name", None)), own.pop(f"{_EVALUATION}score.value", None)
            label, why = own.pop(f"{_EVALUATION}score.label", None), own.pop(f"{_EVALUATION}explanation", None)
            number = number_of(value)
            score: dict[str, Any] = {"type": "numeric", "status": "value", "value": number}
            if value is None and label is not None:
                score = {"type": "categorical", "status": "value", "value": str(label)}
            elif number is None:
                score = {"type": "numeric", "status": "null" if value is None else "unparsable", "value": value}
            if value is not None and label is not None:
                own["label"] = label
            self._tally.counts["scores"] += 1
            self._tally.score_type(name, score["type"])
            score |= {
                "id": None,
                "name": name,
                "subject_kind": "observation",
                "subject_id": span.id,
                "trace_id": trace_id,
                "comment": why if why is None else str(why),
                "attributes": own,
                "locator": event.get("locator", span.locator),
            }
            found.append(score | {key: event[key] for key in ("at", "at_text") if key in event})
        return found

    def _add_lost(self, events: list[dict[str, Any]], lost: list[dict[str, Any]]) -> None:
        """Adds log records whose span is not in the export, after everything else."""
        made = sorted((timed(one) for one in lost), key=lambda one: str(one.get("at")))
        for number, one in enumerate(made):
            self._tally.warn("log record of a span that is not in the export", str(one.get("name"))[:80])
            body = {"status": "value", "value": one["body"]} if "body" in one else {"status": "null"}
            event: dict[str, Any] = {
                name: one[name] for name in ("at", "at_text", "attributes", "locator") if name in one
            }
            kept = {"id": f"log:{number}", "kind": "observation", "type": "log"}
            said = {"name": text_of(one.get("name")), "input": {"status": "not_exported"}, "output": body}
            events.append({**event, **kept, **said})


def _state(root: OtelSpan) -> dict[str, Any]:
    """How the run ended, where the root's status says it."""
    code = root.value.get("code")
    if code == "error":
        return {"state": "failed", "end_reason": (root.error or {}).get("message")}
    return {"state": "completed" if code == "ok" else "unknown"}


def _resources(spans: Sequence[OtelSpan]) -> list[Any]:
    found: list[Any] = []
    for span in ordered(spans):
        resource = span.value.get("resource")
        if resource is not None and resource not in found:
            found.append(resource)
    return found


def _difference(left: Any, right: Any, path: str = "") -> tuple[str, Any, Any]:  # noqa: ANN401 - JSON
    """Returns the first member in which two values differ, and what each has there."""
    if isinstance(left, dict) and isinstance(right, dict):
        name = min(
            name for name in {**left, **right} if left.get(name) != right.get(name) or (name in left) != (name in right)
        )
        return _difference(left.get(name), right.get(name), f"{path}.{name}" if path else name)
    return path, left, right
