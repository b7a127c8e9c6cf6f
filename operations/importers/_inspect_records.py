"""Makes the Record of a sample of an inspect_ai log: one sample in one epoch is one repeat of its Case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from operations.importers._cells import moment
from operations.importers._fields import ValuesConflict
from operations.importers._inspect_events import events_of
from operations.importers._inspect_samples import LEFT_OUT, POOL, unresolved
from operations.importers._intake import Filed
from operations.importers._json_values import loads, shortened
from operations.importers._scores import number_of
from operations.importers._tally import Tally
from operations.importers._tool_lists import name_tools

GRADES = frozenset(("C", "I", "P", "N"))
"""What inspect_ai's own scorers say for correct, incorrect, partly correct and no answer."""

FIELDS = (
    "id", "epoch", "input", "target", "messages", "output", "scores", "events", "model_usage", "started_at",
    "completed_at", "total_time", "working_time", "uuid",
)  # fmt: skip
"""Fields that are reported as unknown where a log lacks them."""

_PLACED = frozenset(
    ("id", "epoch", "input", "target", "messages", "output", "scores", "events", POOL, LEFT_OUT, "uuid", "attachments")
)
_NONE = object()
_EMPTY: tuple[Any, ...] = (None, {}, [])
"""What one form of a log writes and another leaves out."""


class RecordMaker:
    """Makes the records of samples. One serves a whole import."""

    def __init__(
        self, namespace: str, files: Sequence[str], headers: Sequence[Mapping[str, Any]], tally: Tally
    ) -> None:
        """`files` are the names that locators show, `headers` what each file says of its run, masked."""
        self._namespace = namespace
        self._files = files
        self._headers = headers
        self._tally = tally

    def record(self, rows: Sequence[Filed]) -> dict[str, Any]:
        """Returns the record of a sample, which several logs may hold, as one that was tried again copies it.

        Raises:
            ValuesConflict: Two logs say different things about it.
        """
        rows = sorted(rows, key=lambda one: (self._made(one.file), self._files[one.file], one.row))
        first, *others = rows
        sample: dict[str, Any] = loads(first.payload)
        for other in others:
            self._tally.counts["duplicates_merged"] += 1
            found = loads(other.payload)
            for name in sorted({*sample, *found} - {LEFT_OUT}):
                if _said(sample, name) and _said(found, name) and sample[name] != found[name]:
                    raise self._conflict(name, (first, sample), (other, found))
            sample = {**found, **{name: value for name, value in sample.items() if _said(sample, name)}}
        marks = loads(first.marks.encode()) if first.marks else {}
        self._tally.counts["samples"] += 1
        return self._record(first, sample, marks)

    def _made(self, file: int) -> str:
        return str(self._headers[file].get("created") or "")

    def _conflict(
        self, name: str, left: tuple[Filed, dict[str, Any]], right: tuple[Filed, dict[str, Any]]
    ) -> ValuesConflict:
        return ValuesConflict(
            subject=f"sample {shortened(left[1].get('id'))} epoch {left[1].get('epoch')}",
            field=name,
            left=shortened(left[1][name]),
            right=shortened(right[1][name]),
            left_place=f"{self._files[left[0].file]} {left[0].pointer}",
            right_place=f"{self._files[right[0].file]} {right[0].pointer}",
        )

    def _record(self, first: Filed, sample: Mapping[str, Any], marks: Mapping[str, str]) -> dict[str, Any]:
        header = self._headers[first.file]
        place = {"file": self._files[first.file], "row": first.row, "pointer": first.pointer or ""}
        uuid = sample.get("uuid")
        composed = "/".join(str(part) for part in (header.get("eval_id"), sample.get("id"), sample.get("epoch")))
        trace_id = uuid if isinstance(uuid, str) and uuid else composed
        found: dict[str, Any] = {
            "source": {"namespace": self._namespace, "trace_id": trace_id},
            "name": None if header.get("task") is None else str(header["task"]),
            "case_id": str(sample["id"]),
            "repeat": sample["epoch"],
            "trace_row": True,
            "input": _field(sample, "input"),
            "output": _output(sample.get("output", _NONE)),
            "expected": _field(sample, "target"),
            "log": name_tools({**_end(sample), "events": events_of(sample, place)}),
            "scores": self._scores(sample, marks, place, trace_id),
            "metrics": _metrics(sample),
            "locators": [place],
        }
        if began := sample.get("started_at"):
            found["at_text"] = str(began)
            if (when := moment(began))[0] is not None:
                found["at"] = when[1]
        rest = {name: value for name, value in sample.items() if name not in _PLACED and value not in (None, {}, [])}
        found["runtime_metadata"] = {"eval": dict(header), **rest}
        if not isinstance(sample["id"], str):
            found["runtime_metadata"]["id"] = sample["id"]
        found["missing"] = [
            name
            for name, lacks in (
                ("trace_input", found["input"]["status"] in ("null", "not_exported")),
                ("trace_output", found["output"]["status"] in ("null", "not_exported")),
                ("observations", not found["log"]["events"]),
            )
            if lacks
        ]
        found["fidelity"] = {name: mark for name, mark in marks.items() if not name.startswith("scores.")}
        self._count(sample, found)
        return {name: value for name, value in found.items() if value not in (None, {}, [])}

    def _count(self, sample: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        tally, fidelity = self._tally, found["fidelity"]
        for name in sorted({*FIELDS, *sample} - {POOL, LEFT_OUT}):
            is_there = sample.get(name) is not None
            if name == "output":
                is_there = "trace_output" not in found["missing"]
            tally.outcome(f"sample.{name}", fidelity.get(name) or ("kept" if is_there else "unknown"))
        for name, count in (sample.get(LEFT_OUT) or {}).items():
            tally.outcome(f"event.{name}", "lossy", count)
        if lost := unresolved(dict(sample)):
            tally.outcome("sample.attachments", "unknown", lost)
            tally.warn("attachment that the log does not hold", f"sample {sample['id']} epoch {sample['epoch']}"[:80])
        counts = tally.counts
        counts["events"] += len(found["log"]["events"])
        counts["sample_errors"] += bool(sample.get("error"))
        counts["sample_limits"] += bool(sample.get("limit"))
        if sample.get("invalidation"):
            counts["invalidated"] += 1
            tally.warn("somebody declared a sample invalid", f"sample {sample['id']} epoch {sample['epoch']}"[:80])

    def _scores(
        self, sample: Mapping[str, Any], marks: Mapping[str, str], place: Mapping[str, Any], trace_id: str
    ) -> list[dict[str, Any]]:
        scores = sample.get("scores")
        made = []
        for name, score in scores.items() if isinstance(scores, Mapping) else ():
            said = score if isinstance(score, Mapping) else {"value": score}
            score_ = typed_score(said.get("value"), wrong=marks.get(f"scores.{name}") == "unparsable")
            self._tally.counts["scores"] += 1
            self._tally.counts["scores_unscored"] += score_["status"] != "value"
            self._tally.score_type(name, score_["type"])
            attributes = {k: v for k, v in said.items() if k not in ("value", "explanation") and v not in (None, [])}
            made.append(
                {
                    "id": None,
                    "name": name,
                    **score_,
                    "subject_kind": "trace",
                    "subject_id": trace_id,
                    "trace_id": trace_id,
                    "comment": said.get("explanation") if isinstance(said.get("explanation"), str) else None,
                    "attributes": attributes,
                    "locator": {**place, "pointer": f"{place['pointer']}/scores/{pointed(name)}"},
                }
            )
        return made


def _said(sample: Mapping[str, Any], name: str) -> bool:
    return sample.get(name) not in _EMPTY


def pointed(name: object) -> str:
    """Returns a name as it stands in a JSON pointer."""
    return str(name).replace("~", "~0").replace("/", "~1")


def typed_score(value: Any, *, wrong: bool = False) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Returns type, value and status of a score. `wrong`: it is NaN, which says that there is no score, or infinite."""
    if wrong:
        return {"type": "numeric", "status": "unparsable", "value": value}
    if value is None:
        return {"type": "unknown", "status": "null", "value": None}
    if isinstance(value, bool):
        return {"type": "boolean", "status": "value", "value": value}
    if isinstance(value, str):
        kind = "categorical" if value in GRADES else "text"
        return {"type": kind, "status": "value" if value else "empty", "value": value or None}
    if number_of(value) is not None:
        return {"type": "numeric", "status": "value", "value": value}
    return {"type": "unknown", "status": "value", "value": value}


def _field(sample: Mapping[str, Any], name: str) -> dict[str, Any]:
    if name not in sample:
        return {"status": "not_exported"}
    value = sample[name]
    if value is None:
        return {"status": "null"}
    return {"status": "empty"} if value == "" else {"status": "value", "value": value, "source": f"sample.{name}"}


def _output(output: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Returns what the model answered last: its text, else the content of its first choice. Without one, it is null."""
    if output is _NONE:
        return {"status": "not_exported"}
    choices = output.get("choices") if isinstance(output, Mapping) else None
    if not isinstance(choices, list) or not choices:
        said = output.get("completion") if isinstance(output, Mapping) else output
        return {"status": "value", "value": said, "source": "sample.output"} if said else {"status": "null"}
    message = choices[0].get("message") if isinstance(choices[0], Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    text = output.get("completion") if isinstance(content, list) else content
    value = text if isinstance(text, str) and (text or content == "") else content
    if value is None:
        return {"status": "null"}
    return {"status": "empty"} if value == "" else {"status": "value", "value": value, "source": "sample.output"}


def _end(sample: Mapping[str, Any]) -> dict[str, Any]:
    """How the sample ended: by an error, at a limit, or by itself."""
    error, limit = sample.get("error"), sample.get("limit")
    if error:
        message = error.get("message") if isinstance(error, Mapping) else error
        return {"state": "failed", "end_reason": None if message is None else str(message)}
    if limit:
        kind = limit.get("type") if isinstance(limit, Mapping) else limit
        return {"state": "interrupted", "end_reason": f"limit: {kind}"}
    if sample.get("completed_at") is None and sample.get("output") is None:
        return {"state": "unknown"}
    return {"state": "completed"}


def _metrics(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the times in seconds, and the tokens of each model: `<model>.input_tokens` and so on."""
    found: dict[str, Any] = {}
    for name in ("total_time", "working_time", "turn_count"):
        if (number := number_of(sample.get(name))) is not None:
            found[name] = number
    usage = sample.get("model_usage")
    for model, counts in usage.items() if isinstance(usage, Mapping) else ():
        for name, count in counts.items() if isinstance(counts, Mapping) else ():
            if (number := number_of(count)) is not None:
                found[f"{model}.{name}"] = number
    return found
