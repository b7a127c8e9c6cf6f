"""Makes rows of Records: each through a projection, held to what may be trained on and against the holdout."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operations.holding import names_of, pair
from operations.importers._assessment_csv import read_assessment_csv
from operations.importers.batches import Evidence
from operations.importers.event_logs import LogNotWhole, log_of
from operations.trajectories import EventLog
from operations.trajectories.projections import (
    LossReport,
    audit_records,
    evaluator_view,
    openai_messages,
    otlp_spans,
    sft_messages,
    sft_tokens,
)
from operations.tuning.holding_out import WITHIN, HeldOut, Names
from operations.tuning.readings import form_of
from operations.tuning.row_rules import Rows, case_problem, passing
from storage import contents
from storage.masking import has_mask
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Assessment
from storage.schema.batches import Batch
from storage.schema.datasets import Case, Dataset, Usage
from storage.schema.rows import LeftOut, RowForm, RowLoss

TRAINING: frozenset[RowForm] = frozenset({"messages", "tokens", "openai"})
"""Forms that are made to be trained on."""

FIRST = 5
"""Records that are named of those that gave no row for one reason."""

LOSSES = 200
"""Losses that are kept, those of most events first, and reasons for which Records gave no row."""

_CONTENTS = ("content", "arguments", "input", "output", "prompt")
_NO_TEXT = frozenset(
    {*_CONTENTS, "kind", "role", "seq", "turn", "tokens", "locator", "at", "ended_at", "duration_seconds"}
)
"""Fields of an event that are looked at by themselves, or that hold no text of anybody's."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What rows are asked for."""

    form: RowForm
    usages: tuple[str, ...]
    reasoning: bool = True
    chosen: Mapping[str, Rows] = field(default_factory=dict)
    """Assessment id → verdicts, of those that were asked for: a Record has to pass by each of them."""
    others: Mapping[str, Rows] = field(default_factory=dict)
    """The same of the other current Assessments of the batch."""


def verdicts_by_record(project: Project, state: State, assessment: Assessment) -> Rows:
    """Returns the verdicts of an Assessment by Record.

    Raises:
        StoreDamaged: Its file is not what was recorded.
    """
    found: dict[str, list[Any]] = {}
    for row in read_assessment_csv(contents.checked(project, state, f"assessments/{assessment.id}/assessment.csv")):
        found.setdefault(row.record_id, []).append(row)
    return found


class Cases:
    """Finds the Cases of a batch's Records."""

    def __init__(self, evidence: Evidence) -> None:
        """Reads the dataset of a run, or all datasets for an import.

        Raises:
            StoreDamaged: A dataset is not what was recorded.
        """
        self._dataset: dict[str, str] = {}
        """Fingerprint → the dataset in which its Case was found first."""
        self._by_id: dict[str, Case] = {}
        self._by_record: dict[str, list[Case]] = {}
        self._by_input: dict[str, list[Case]] = {}
        project, state, batch = evidence.project, evidence.state, evidence.batch
        self._imported = evidence.imported
        datasets = [batch.dataset_id] if isinstance(batch, Batch) else [d.id for d in state.all(Dataset)][::-1]
        for dataset_id in datasets:
            for case in contents.cases(project, state, dataset_id):
                self._dataset.setdefault(case.fingerprint, dataset_id)
                self._by_id.setdefault(case.id, case)
                if self._imported and case.origin is not None:
                    self._by_record.setdefault(case.origin.record_id, []).append(case)
                if self._imported and case.sealed is None:
                    for given in (case.input, project.masker.value(case.input)):
                        self._by_input.setdefault(form_of(given), []).append(case)

    def of(self, record: Mapping[str, Any]) -> list[Case]:
        """Returns the Cases of a Record, the newest that was made of it first; empty where it is of none."""
        if not self._imported:
            case = self._by_id.get(record["case_id"])
            return [case] if case is not None and case.fingerprint == record["case_fingerprint"] else []
        asked = record.get("input") or {}
        same = self._by_input.get(form_of(asked.get("value")), []) if asked.get("status") == "value" else []
        found = [*self._by_record.get(record["id"], []), *same]
        return list({case.fingerprint: case for case in found}.values())

    def dataset_of(self, case: Case) -> str:
        """Returns the dataset of a Case."""
        return self._dataset[case.fingerprint]


class RowMaker:
    """Makes the lines of a file of rows. The figures are complete when `lines` has ended."""

    def __init__(self, evidence: Evidence, wanted: Wanted, held: HeldOut) -> None:
        """Keeps what is wanted.

        Raises:
            StoreDamaged: A dataset is not what was recorded.
        """
        self._evidence, self._wanted, self._held = evidence, wanted, held
        self._cases = Cases(evidence)
        self._left: dict[str, list[str]] = {}
        self._left_counts: Counter[str] = Counter()
        self._losses: Counter[tuple[str, str, str]] = Counter()
        self.splits: dict[Usage, int] = {}
        self.scanned = 0
        self.count = 0

    def lines(self, records: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
        """Yields a line for each Record that gives a row."""
        for record in records:
            self.scanned += 1
            made = self._row(record)
            if isinstance(made, str):
                self._left_counts[made] += 1
                named = self._left.setdefault(made, [])
                if len(named) < FIRST:
                    named.append(str(record["id"]))
                continue
            self.count += 1
            if (split := made["metadata"]["split"]) is not None:
                self.splits[split] = self.splits.get(split, 0) + 1
            yield json.dumps(made, sort_keys=True, allow_nan=False).encode() + b"\n"

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The Records that gave no row, by reason, most first. A reason can name what a log holds, so they end."""
        most = self._left_counts.most_common(LOSSES)
        found = [LeftOut(reason=reason, records=count, first=tuple(self._left[reason])) for reason, count in most]
        if rest := sum(self._left_counts.values()) - sum(count for _, count in most):
            found.append(LeftOut(reason="for other reasons", records=rest, first=()))
        return tuple(found)

    @property
    def losses(self) -> tuple[RowLoss, ...]:
        """What the rows do not carry, the losses of most events first."""
        return tuple(
            RowLoss(kind=kind, field=name, reason=reason, events=count)
            for (kind, name, reason), count in self._losses.most_common(LOSSES)
        )

    # -- one Record ----------------------------------------------------------------------------------------------------

    def _row(self, record: Mapping[str, Any]) -> dict[str, Any] | str:
        """Returns the row of a Record, or why there is none."""
        if record.get("sealed"):
            return "it is an attempt at a holdout Case"
        training = self._wanted.form in TRAINING
        cases = self._cases.of(record)
        judged: tuple[str, ...] = ()
        if training:
            why = case_problem(cases, self._wanted.usages) or _unended(record)
            if why is None:
                why, judged = passing(record["id"], self._wanted.chosen, self._wanted.others)
            if why is not None:
                return why
        try:
            log = log_of(record)
        except LogNotWhole:  # the Record stays; of a batch of thousands it is one that gives no row
            return "its log is not what this version stores"
        asked = self._asked(record)
        if why := self._like_holdout(record, cases, log, asked):
            return why
        made, report = self._projected(record, log, asked)
        if made is None:
            return _reason(report.refused or "")
        if training and _trains_a_mask(made):
            return "what the agent wrote holds a mask, which nobody should learn to write"
        for loss in report.losses:  # several reasons can be one without their events
            self._losses[loss.kind, loss.field, _reason(loss.reason)] += loss.events
        about = {
            "origin": {
                "batch_id": self._evidence.batch.id,
                "record_id": record["id"],
                "dataset_id": self._cases.dataset_of(cases[0]) if cases else None,
                "case_id": cases[0].id if cases else record.get("case_id"),
                "repeat": record.get("repeat"),
            },
            "case_fingerprint": cases[0].fingerprint if cases else None,
            "split": cases[0].usage if cases else None,
            **({"assessment_ids": list(judged)} if training else {}),
        }
        return {**made, "metadata": {**made.get("metadata", {}), **about}}

    def _asked(self, record: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        if "execution" in record:
            return self._evidence.inputs.get(record["case_id"])
        asked = record.get("input") or {}
        return asked.get("value") if asked.get("status") == "value" else None

    def _like_holdout(
        self,
        record: Mapping[str, Any],
        cases: Sequence[Case],
        log: EventLog,
        asked: Any,  # noqa: ANN401 - JSON
    ) -> str | None:
        source = record.get("source") or {}
        namespace = source.get("namespace")
        own = Names(
            case_id=record.get("case_id"),
            fingerprint=record.get("case_fingerprint"),
            record_id=record["id"],
            trace=pair(namespace, source.get("trace_id")),
            session=pair(namespace, source.get("session_id")),
        )
        names = [own, *(one for case in cases for one in names_of(case))]
        if record.get("carried_from"):
            names.append(Names(record_id=record["carried_from"]))
        questions = [asked, *(case.input for case in cases), *_questions(log)]
        said = (*_values(log), *_besides(log), _answer(record))
        if self._held.cases and asked is None and not any(True for _ in _questions(log)):
            return "what it was asked is not known, so it cannot be told from a holdout Case"
        return self._held.why(names, questions, said)

    def _projected(
        self,
        record: Mapping[str, Any],
        log: EventLog,
        asked: Any,  # noqa: ANN401 - JSON
    ) -> tuple[dict[str, Any] | None, LossReport]:
        answer = _answer(record)
        match self._wanted.form:
            case "messages":
                whole, shift = _with_ends(log, asked, answer)
                row, report = sft_messages(whole, reasoning=self._wanted.reasoning)
                return _placed_back(row, shift, len(log)), report
            case "openai":
                messages, report = openai_messages(_with_ends(log, asked, answer)[0], to_train=True)
                return None if report.refused else {"messages": messages}, report
            case "tokens" if _tells_what_is_masked(log):
                return None, LossReport("sft_tokens", refused="its tokens say what is masked in its text")
            case "tokens":
                try:
                    return sft_tokens(log)
                except ValueError as light:
                    said = str(light)
                    told = "its log is light" if "light" in said else "what it was told is not known in tokens"
                    return None, LossReport("sft_tokens", refused=told)
            case "evaluator":
                view, report = evaluator_view(log)
                view["asked"] = view["asked"] or [asked]
                view["answer"] = answer if view["answer"] is None else view["answer"]
                return view, report
            case "audit":
                records, report = audit_records(log, record["id"])
                return {"records": records}, report
            case "otlp":
                return otlp_spans(log, record["id"])


def _unended(record: Mapping[str, Any]) -> str | None:
    ended = (
        record["execution"]["status"] if "execution" in record else (record.get("log") or {}).get("state", "unknown")
    )
    return None if ended in ("completed", "unknown") else f"its attempt ended as {ended}"


def _reason(said: str) -> str:
    """Returns a reason without the event that it is about, so that equal ones can be counted."""
    return said.partition(": ")[2] if said.startswith("event ") else said


def _answer(record: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Returns what an attempt answered, whole, or None."""
    if "execution" in record:
        whole = record["output_status"] == "value" and not record["execution"]["stdout_truncated"]
        return record["output"] if whole else None
    output = record.get("output") or {}
    return output.get("value") if output.get("status") == "value" else None


def _questions(log: EventLog) -> Iterator[Any]:
    """Yields what the events say that the agent was asked."""
    for event in log:
        if event["kind"] == "text" and event["role"] != "assistant":
            yield event["content"].get("value")
        elif event["kind"] == "text" and (event.get("prompt") or {}).get("status") == "value":
            yield event["prompt"]["value"]
        elif event["kind"] == "observation" and event["input"]["status"] == "value":
            yield event["input"]["value"]


def _values(log: EventLog) -> Iterator[Any]:
    for event in log:
        for name in _CONTENTS:
            if isinstance(found := event.get(name), Mapping) and found.get("value") is not None:
                yield found["value"]


def _besides(log: EventLog) -> Iterator[Any]:
    """Yields everything else that a log holds as text, since some form of rows carries it."""
    yield log.tools
    yield log.end_reason
    for event in log:
        texts = {name: value for name, value in event.items() if name not in _NO_TEXT and value}
        if any(not isinstance(value, str) or len(value) >= WITHIN for value in texts.values()):
            yield texts


def _with_ends(log: EventLog, asked: Any, answer: Any) -> tuple[EventLog, int]:  # noqa: ANN401 - JSON
    """Returns the log with what was asked and answered where it has no event of that, and how many come before it."""
    told = any(e["kind"] == "text" and (e["role"] == "user" or (e.get("prompt") or {}).get("value")) for e in log)
    spoke = any(e["kind"] == "text" and e["role"] == "assistant" and e["content"].get("value") for e in log)
    taken = {event["id"] for event in log}
    first = [] if told or asked is None else [_text("user", asked, _free("record:input", taken))]
    last = [] if spoke or answer is None else [_text("assistant", answer, _free("record:output", taken))]
    if not first and not last:
        return log, 0
    stored = log.as_stored()
    events = [*first, *stored["events"], *last]
    numbered = [{**event, "seq": seq} for seq, event in enumerate(events)]
    return EventLog.from_stored({**stored, "tier": "light", "events": numbered}), len(first)


def _free(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "'"
    return wanted


def _text(role: str, value: Any, own: str) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"kind": "text", "id": own, "role": role, "content": {"status": "value", "value": value}}


def _placed_back(row: dict[str, Any] | None, shift: int, events: int) -> dict[str, Any] | None:
    """Returns a row whose `seqs` are those of the Record's own log; what is no event of it has none."""
    if row is None:
        return row
    about = row["metadata"]

    def back(seq: int) -> int | None:
        return seq - shift if 0 <= seq - shift < events else None

    about["seqs"] = [back(seq) for seq in about["seqs"]]
    for name in ("rewards", "memory", "turn_ends"):
        about[name] = [{**one, "seq": back(one["seq"])} for one in about[name]]
    return row


def _tells_what_is_masked(log: EventLog) -> bool:
    """Whether an event has tokens whose text is masked. Records of earlier versions may hold such."""
    return any(event.get("tokens") and has_mask(json.dumps(event)) for event in log)


def _trains_a_mask(row: Mapping[str, Any]) -> bool:
    """Whether something that counts in the loss holds a mask."""
    messages = row.get("messages", ())
    mask = row.get("completion_mask") or [
        message["role"] == "assistant" and message.get("weight") != 0 for message in messages
    ]
    return any(counts and has_mask(json.dumps(message)) for message, counts in zip(messages, mask, strict=False))
