"""Holds an import to the contract of its source: what was agreed of a field, and what is found instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from operations.importers import _record_facts as facts
from operations.importers._cells import instant
from operations.importers._json_values import loads
from operations.importers._record_facts import UNKNOWN, RecordValue
from operations.importers._scores import number_of
from operations.importers._shares import Record
from operations.importers.evidence import EvidenceImport
from storage.projection import State
from storage.schema.contracts import ContractField, SourceContract

FIELDS = (
    r"^(input|output|expected|case_id|name|at|tags|trace_id|session_id|user_id|(scores|metrics|metadata)\..{1,200})$"
)
"""What a contract may be about."""

_SHOWN = 3
_LENGTH = 40
"""Values that a sentence shows, and characters of each."""


def contract_of(state: State, namespace: str, version: str | None) -> SourceContract | None:
    """Returns the contract that an import of this namespace and `mapping_version` refers to."""
    made = (c for c in state.all(SourceContract) if c.fields and c.version == version)
    return next((c for c in made if c.source_namespace == namespace), None)


def held(
    reading: EvidenceImport, state: State, namespace: str, version: str | None, loose_scores: Callable[[bytes], object]
) -> Iterator[Record]:
    """Yields the Records of an import, held to the contract of its source; `reading` tells what is not kept.

    Raises:
        EvidenceRefused: As `EvidenceImport.records` does.
    """
    check = ContractCheck(state, namespace, version, reading.found.warnings)
    reading.contract_id = check.contract.id if check.contract else None
    yield from check.over(reading.records(loose_scores))


@dataclass
class _Kept:
    """How far one field of a contract was kept."""

    agreed: ContractField
    missing: int = 0
    of_type: dict[str, int] = field(default_factory=dict)
    """Another type → Records."""
    outside: int = 0
    strange: int = 0
    beyond: list[str] = field(default_factory=list)
    """The first of those that are outside of the bounds,"""
    beside: list[str] = field(default_factory=list)
    """and of those that are none of the values."""

    def take(self, record: RecordValue) -> None:
        """Looks at one Record."""
        found = _found(record, self.agreed.field)
        self.missing += not found
        for value in found:
            self._value(value)

    def sentences(self, records: int) -> Iterator[str]:
        """Yields what was agreed and what was found instead, for each thing that was not kept."""
        agreed = self.agreed
        if agreed.required and self.missing:
            yield f"expected in every Record, found in {records - self.missing} of {records}"
        if self.of_type:
            others = ", ".join(f"{name} in {count}" for name, count in sorted(self.of_type.items()))
            yield f"expected {agreed.type}, found {others}"
        if self.outside:
            unit = f" {agreed.unit}" if agreed.unit else ""
            yield (f"expected {_bounds(agreed)}{unit}, found {self.outside} beyond, such as {', '.join(self.beyond)}")
        if self.strange:
            allowed = ", ".join(agreed.values[:_SHOWN])
            yield f"expected one of {allowed}, found {self.strange} beside them, such as {', '.join(self.beside)}"

    def _value(self, value: Any) -> None:  # noqa: ANN401 - any JSON
        agreed = self.agreed
        kind = _type(value)
        if agreed.type == "time" and kind == "text" and instant(value) is not None:
            kind = "time"
        if agreed.type not in (None, kind):
            self.of_type[kind] = self.of_type.get(kind, 0) + 1
            return
        number = number_of(value)
        if number is not None and not _within(agreed, number):
            self.outside += 1
            _example(self.beyond, value)
        elif agreed.values and _text(value) not in agreed.values:
            self.strange += 1
            _example(self.beside, value)


def _example(examples: list[str], value: Any) -> None:  # noqa: ANN401 - any JSON
    shown = (facts.snippet(value, _LENGTH) or "").replace("\n", " ")
    if len(examples) < _SHOWN and shown not in examples:
        examples.append(shown)


class ContractCheck:
    """Watches Records on their way into the store, and says afterwards what of a contract they do not keep."""

    def __init__(self, state: State, namespace: str, version: str | None, told: list[str]) -> None:
        """`told` takes a sentence for each thing that was not kept, once the Records have passed."""
        self.contract = contract_of(state, namespace, version)
        self._told = told
        self._missing = (
            version is not None
            and self.contract is None
            and any(c.fields and c.source_namespace == namespace for c in state.all(SourceContract))
        )
        self._version = version

    def over(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yields the Records as they are."""
        contract = self.contract
        if contract is None:
            yield from records
            if self._missing:
                self._told.append(f"no contract of this source says what mapping_version {self._version} means")
            return
        kept = [_Kept(agreed) for agreed in contract.fields]
        count = 0
        for record in records:
            count += 1
            known = loads(record) if isinstance(record, bytes) else record
            for one in kept:
                one.take(known)
            yield record
        for one in kept:
            for sentence in one.sentences(count):
                self._told.append(f"{contract.id} {one.agreed.field}: {sentence}")


def _found(record: RecordValue, name: str) -> list[Any]:
    """Returns what a Record says of a field of a contract: nothing, one value, or a value for each score."""
    kind, _, rest = name.partition(".")
    match kind:
        case "scores":
            return [score["value"] for score in facts.scores(record, rest) if score["status"] == "value"]
        case "input" | "output" | "expected":
            found = facts.content(record, kind, {})
        case "metrics":
            found = facts.metadata(record, name)
        case "metadata":
            found = facts.metadata(record, rest)
        case "trace_id" | "session_id" | "user_id":
            found = facts.source(record, kind)
        case "at":
            found = record.get("at_text", record.get("at")) or UNKNOWN
        case _:
            found = record.get(kind) or UNKNOWN
    return [] if found is UNKNOWN else [found]


def _type(value: Any) -> str:  # noqa: ANN401 - any JSON
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case dict():
            return "object"
        case list() | tuple():
            return "list"
        case _:
            return "text"


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON
    return str(value).lower() if isinstance(value, bool) else str(value)


def _within(agreed: ContractField, number: float) -> bool:
    return (agreed.min is None or number >= agreed.min) and (agreed.max is None or number <= agreed.max)


def _bounds(agreed: ContractField) -> str:
    if agreed.min is None:
        return f"at most {agreed.max:g}"
    return f"at least {agreed.min:g}" if agreed.max is None else f"{agreed.min:g} to {agreed.max:g}"
