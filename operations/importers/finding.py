"""Finds Records of a batch by what they say; a filter on what a Record does not say never matches, and is counted."""

from __future__ import annotations

import hashlib
import heapq
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

from pydantic import AwareDatetime, BeforeValidator

from operations.importers import _record_facts as facts
from operations.importers._record_facts import UNKNOWN, RecordValue
from operations.importers._scores import number_of
from storage.errors import AtkError, NextCall

MAX_VALUES = 10_000
"""Distinct values that are counted by; Records of further ones are counted together."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d")

Test = Callable[[RecordValue], bool | None]
"""Whether a Record matches; None where it does not say."""


def _moment(given: object) -> object:
    """Returns the time that a text says, of a date without a time its beginning in UTC; anything else as it is."""
    if isinstance(given, str):
        with suppress(ValueError):  # it is no time, and whoever checks it next says so
            found = datetime.fromisoformat(given)
            return found.replace(tzinfo=UTC) if _DATE.fullmatch(given) else found
    return given


Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]
"""A time with a zone; of a date, when it begins in UTC."""


@dataclass(kw_only=True, eq=False)
class BoundsCrossed(AtkError):
    """The bounds of a filter leave nothing that could match."""

    message = (
        "The filter {filter!r} asks for values from {least} to {most}, and nothing lies between. Give min no larger "
        "than max, and after before before."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("find_records", {"batch_id": "{batch_id}"}),)

    filter: str
    least: str
    most: str
    batch_id: str


def check_bounds(bounds: Iterable[tuple[str, Any, Any]], batch_id: str) -> None:
    """Says whether something can lie within each of (filter, least, most); None is no bound.

    Raises:
        BoundsCrossed: Nothing can lie within one.
    """
    for name, least, most in bounds:
        if least is None or most is None:
            continue
        if most < least or (isinstance(least, datetime) and least == most):
            raise BoundsCrossed(filter=name, least=str(least), most=str(most), batch_id=batch_id)


@dataclass(frozen=True)
class Filter:
    """One thing that is asked of a Record, and the name under which what is unknown is counted."""

    name: str
    test: Test


@dataclass(frozen=True)
class Asked:
    """A value that is asked for: exactly, or within bounds. With nothing given it is asked only to be there."""

    value: str | None = None
    least: float | None = None
    most: float | None = None

    def holds(self, found: Any) -> bool | None:  # noqa: ANN401 - any JSON
        """Returns whether `found` is as asked; None where numbers are asked for and it is none."""
        if self.least is not None or self.most is not None:
            number = number_of(found)
            if number is None:
                return None
            if (self.least is not None and number < self.least) or (self.most is not None and number > self.most):
                return False
        return self.value is None or _same(found, self.value)


def _same(found: Any, asked: str) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(found, bool):
        return asked.lower() == str(found).lower()
    if isinstance(found, int | float):
        number = number_of(asked)
        return number is not None and number == found
    return isinstance(found, str) and found == asked


def _known(found: Any, holds: Callable[[Any], bool | None]) -> bool | None:  # noqa: ANN401 - any JSON or UNKNOWN
    return None if found is UNKNOWN else holds(found)


def by_status(wanted: Sequence[str]) -> Filter:
    """Asks for one of some ends; `unknown` asks for those whose end is not known."""
    if "unknown" in wanted:
        return Filter("status", lambda record: facts.status(record) in (UNKNOWN, *wanted))
    return Filter("status", lambda record: _known(facts.status(record), lambda found: found in wanted))


def by_error(*, wanted: bool) -> Filter:
    """Asks for Records with an error, or for those without one."""
    return Filter("has_error", lambda record: _known(facts.has_error(record), lambda found: found == wanted))


def by_tag(tag: str, *, exported: bool) -> Filter:
    """Asks for a tag. `exported`: whether the export has tags at all."""
    return Filter(f"tags.{tag}", lambda record: _known(facts.tags(record, exported=exported), lambda f: tag in f))


def by_time(after: datetime | None, before: datetime | None) -> Filter:
    """Asks for Records that began at or after one time and before another."""

    def within(found: datetime) -> bool:
        return (after is None or found >= after) and (before is None or found < before)

    return Filter("time", lambda record: _known(facts.when(record), within))


def by_score(name: str, kind: str | None, asked: Asked) -> Filter:
    """Asks for a score of a name, a type and a value; a score of another type, or one that is none, says nothing."""

    def test(record: RecordValue) -> bool | None:
        given = [s for s in facts.scores(record, name) if s["status"] == "value" and kind in (None, s["type"])]
        return _any(asked.holds(score["value"]) for score in given)

    return Filter(f"score.{name}", test)


def by_metadata(path: str, asked: Asked) -> Filter:
    """Asks for a value at a path of the metadata or the metrics."""
    return Filter(f"metadata.{path}", lambda record: _known(facts.metadata(record, path), asked.holds))


def by_verdict(verdicts: Mapping[int, frozenset[str]], wanted: Sequence[str]) -> Filter:
    """Asks for a verdict, given the verdicts that an assessment has for each Record's number."""
    asked = frozenset(wanted)
    return Filter("verdict", lambda record: bool(asked & verdicts[record["n"]]) if record["n"] in verdicts else None)


def by_text(text: str, part: str, inputs: Mapping[str, Any]) -> Filter:
    """Asks for a text in the input, the output or the events, in any case."""
    asked = text.casefold()

    def test(record: RecordValue) -> bool | None:
        if part == "events":
            if any(asked in found.casefold() for found in facts.event_texts(record)):
                return True
            return None if "observations" in record.get("missing", ()) else False
        found = facts.content(record, part, inputs)
        return None if found is UNKNOWN else any(asked in one.casefold() for one in facts.texts(found))

    return Filter(f"text.{part}", test)


def _any(answers: Iterable[bool | None]) -> bool | None:
    """Returns whether one is true; else None where one is not known, or there is none at all."""
    found = list(answers)
    return True if True in found else None if None in found or not found else False


@dataclass
class IdList:
    """The user's own ids, and which of them were met."""

    ids: frozenset[str]
    kinds: tuple[str, ...]
    """`trace`, `session`, `user`, `case` or `record`: what the ids may be of."""
    met: set[str] = field(default_factory=set)

    def test(self, record: RecordValue) -> bool | None:
        """Returns whether the Record bears one of the ids; None where it bears none of the kind."""
        own = [found for kind in self.kinds if (found := _id(record, kind)) is not UNKNOWN]
        matched = self.ids.intersection(own)
        self.met |= matched
        return bool(matched) if own else None

    def unmatched(self) -> list[str]:
        """Returns the ids that no Record of the batch bears, sorted."""
        return sorted(self.ids - self.met)


def _id(record: RecordValue, kind: str) -> Any:  # noqa: ANN401 - a text or UNKNOWN
    match kind:
        case "record":
            return record["id"]
        case "case":
            return facts.case_id(record)
        case _:
            return facts.source(record, f"{kind}_id")


class Counts:
    """Counts matching Records by a field: `status`, `case`, `session`, `user`, `trace`, `name`, `tag`, `day`, ..."""

    def __init__(self, by: str, *, tags_exported: bool) -> None:
        """`by` may also be `score.<name>` or `metadata.<path>`."""
        self.by = by
        self.values: Counter[str] = Counter()
        self.unknown = 0
        self.others = 0
        """Records of values beyond the first `MAX_VALUES`."""
        self._exported = tags_exported

    def add(self, record: RecordValue) -> None:
        """Counts one Record; under each of its tags or scores where it has several."""
        found = self._found(record)
        if not found:
            self.unknown += 1
        for value in found:
            if value in self.values or len(self.values) < MAX_VALUES:
                self.values[value] += 1
            else:
                self.others += 1

    def _found(self, record: RecordValue) -> list[str]:
        kind, _, name = self.by.partition(".")
        match kind:
            case "tag":
                found = facts.tags(record, exported=self._exported)
                return [] if found is UNKNOWN else sorted(set(found)) or ["(no tag)"]
            case "score":
                values = [s["value"] for s in facts.scores(record, name) if s["status"] == "value"]
                return sorted({_shown(value) for value in values})
            case "metadata":
                value = facts.metadata(record, name)
            case "status":
                value = facts.status(record)
            case "day":
                value = facts.when(record)
                value = value if value is UNKNOWN else value.date().isoformat()
            case "name":
                value = record.get("name") or UNKNOWN
            case _:
                value = _id(record, kind)
        return [] if value is UNKNOWN else [_shown(value)]


def _shown(value: Any) -> str:  # noqa: ANN401 - any JSON
    return facts.snippet(value, 80) or ""


@dataclass
class Found:
    """What a search came to. Beside the numbers of what matched it does not grow with the batch."""

    scanned: int = 0
    numbers: array[int] = field(default_factory=lambda: array("Q"))
    """The numbers of the Records that matched, ascending; of a sample those that were drawn."""
    matched: int = 0
    undecided: int = 0
    """Records that no filter excluded and of which some filter could not say anything."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Filter → Records of which it could not say anything."""

    def named(self, length: int) -> dict[str, int]:
        """Returns `unknown` under names of bounded length, each its own."""
        numbered = enumerate(self.unknown.items())
        return {name if len(name) <= length else f"{name[:length]}…{n}": count for n, (name, count) in numbered}


def search(
    records: Iterable[RecordValue],
    filters: Sequence[Filter | Sequence[Filter]],
    *,
    counts: Counts | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> Found:
    """Looks at every Record once. A sequence among `filters` asks for one of its own.

    A sample is of the Records with the smallest SHA-256 of `<seed>:<record id>`: it stays the same however the
    Records are ordered, and a larger one holds the smaller.
    """
    found = Found(unknown={one.name: 0 for group in filters for one in _group(group)})
    drawn: list[tuple[int, int]] = []
    for record in records:
        found.scanned += 1
        silent: set[str] = set()
        answers = [_asked(record, group, silent) for group in filters]
        for name in silent:  # once for each Record, also where several filters ask for the same
            found.unknown[name] += 1
        if False in answers:
            continue
        if None in answers:
            found.undecided += 1
            continue
        found.matched += 1
        if counts is not None:
            counts.add(record)
        if sample is None:
            found.numbers.append(record["n"])
        else:
            _draw(drawn, sample, (-_lot(seed, record["id"]), record["n"]))
    if sample is not None:
        found.numbers.extend(sorted(n for _, n in drawn))
    return found


def _group(given: Filter | Sequence[Filter]) -> Sequence[Filter]:
    return (given,) if isinstance(given, Filter) else given


def _asked(record: RecordValue, group: Filter | Sequence[Filter], silent: set[str]) -> bool | None:
    answers = [(one.name, one.test(record)) for one in _group(group)]
    silent.update(name for name, answer in answers if answer is None)
    return _any(answer for _, answer in answers)


def _lot(seed: int, record_id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{record_id}".encode()).digest(), "big")


def _draw(drawn: list[tuple[int, int]], sample: int, lot: tuple[int, int]) -> None:
    """Keeps the `sample` smallest lots, which are negative here so that the heap's top is the largest."""
    if len(drawn) < sample:
        heapq.heappush(drawn, lot)
    elif lot > drawn[0]:
        heapq.heapreplace(drawn, lot)
