"""The canonical names of what a trace, an observation and a score hold, and how a row's own names lead to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operations.importers._export_rows import MAX_FIELDS, MAX_KEY
from operations.importers._streams import EvidenceRefused

TRACE, OBSERVATION, SCORE = 0, 1, 2
ROLES = ("trace", "observation", "score")

CORE = (
    ("id", "timestamp", "name", "session_id", "input", "output", "metadata", "tags", "observations"),
    (
        "id", "trace_id", "parent_observation_id", "type", "name", "start_time", "end_time", "level", "status_message",
        "input", "output", "metadata", "provided_model_name", "model_parameters", "usage_details", "cost_details",
    ),
    ("id", "trace_id", "observation_id", "name", "data_type", "value", "string_value", "comment", "timestamp"),
)  # fmt: skip
"""The fields that are reported as unknown where an export lacks them, by role."""

_ALIASES: tuple[dict[str, str], ...] = (
    {"trace_id": "id", "start_time": "timestamp"},
    {"model": "provided_model_name", "observation_id": "id"},
    {"score_id": "id"},
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(kw_only=True, eq=False)
class MappingSourceMissing(EvidenceRefused):
    """The mapping names a field that no row has."""

    message = (
        "mapping.{role} reads {canonical} from {source!r}, and no {role} row has a field of that name. "
        "Fields found: {found}. Nothing was stored; correct the mapping."
    )

    role: str
    canonical: str
    source: str
    found: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class ValuesConflict(EvidenceRefused):
    """Two places of an export say different things about the same, and nothing says which is right."""

    message = (
        "{subject}: {field} is {left} at {left_place} and {right} at {right_place}. Nothing was stored. "
        "Correct the export or import only one of the two."
    )

    subject: str
    field: str
    left: str
    right: str
    left_place: str
    right_place: str


@dataclass(kw_only=True, eq=False)
class RowTooWide(EvidenceRefused):
    """A row has more fields, or longer names, than any export has."""

    message = (
        "A {role} row of the export has {reason}. Nothing was stored. Export rows of at most {fields} fields whose "
        "names have at most {key} characters."
    )

    role: str
    reason: str
    fields: int = MAX_FIELDS
    key: int = MAX_KEY


@dataclass(slots=True)
class Shape:
    """How rows with the same names in the same order are read: canonical name → the row's own."""

    names: dict[str, str]
    rest: list[tuple[str, str]]
    """(the row's name, canonical name) of what has no place of its own."""
    twins: list[tuple[str, str, str]] = field(default_factory=list)
    """(canonical, one name, another) where a row says the same thing twice."""
    rows: int = 0
    sources: dict[str, str] = field(default_factory=dict)
    """Canonical name → the row's own, of every field."""

    def value(self, row: Mapping[str, Any], canonical: str) -> object:
        """Returns what a row of this shape says under the canonical name; None where it has no such field."""
        name = self.sources.get(canonical)
        return None if name is None else row.get(name)


class Shapes:
    """The shapes of the rows of one role."""

    def __init__(self, role: int, mapping: Mapping[str, str], placed: Sequence[str]) -> None:
        """`mapping` is {canonical: source}; `placed` are the canonical names that have a place of their own."""
        self._role = role
        self._mapping = dict(mapping)
        self._given = {source: canonical for canonical, source in mapping.items()}
        self._placed = frozenset(placed)
        self._known: dict[tuple[str, ...], Shape] = {}

    @property
    def mapped(self) -> Mapping[str, str]:
        """The mapping that was given."""
        return self._mapping

    def of(self, row: Mapping[str, object]) -> Shape:
        """Returns the shape of a row.

        Raises:
            RowTooWide: The row is no row of an export.
        """
        key = tuple(row)
        shape = self._known.get(key)
        if shape is None:
            shape = self._make(key)
            if len(self._known) < MAX_FIELDS:
                self._known[key] = shape
        return shape

    def counted(self) -> list[tuple[tuple[str, ...], int]]:
        """Returns the names of each shape, and how many rows had it."""
        return [(key, shape.rows) for key, shape in self._known.items()]

    def add(self, key: tuple[str, ...], rows: int) -> None:
        """Counts rows that had these names and were read elsewhere."""
        self.of(dict.fromkeys(key)).rows += rows

    def presence(self) -> dict[str, int]:
        """Returns how many rows had each canonical field."""
        found: dict[str, int] = {}
        for shape in self._known.values():
            for canonical in (*shape.names, *(name for _, name in shape.rest)):
                found[canonical] = found.get(canonical, 0) + shape.rows
        return found

    def check(self) -> None:
        """Refuses a mapping that led nowhere.

        Raises:
            MappingSourceMissing: No row had the source.
        """
        seen = sorted({name for key in self._known for name in key})
        for canonical, source in self._mapping.items():
            if source not in seen:
                raise MappingSourceMissing(
                    role=ROLES[self._role], canonical=canonical, source=source, found=tuple(seen[:20])
                )

    def canonical(self, name: str) -> str:
        """Returns what a row's own name means."""
        if name in self._given:
            return self._given[name]
        snake = _HUMP.sub("_", name).lower() if name.isascii() else name
        return _ALIASES[self._role].get(snake, snake)

    def _make(self, key: tuple[str, ...]) -> Shape:
        if len(key) > MAX_FIELDS:
            raise RowTooWide(role=ROLES[self._role], reason=f"{len(key)} fields")
        if long := [name for name in key if len(name) > MAX_KEY]:
            raise RowTooWide(role=ROLES[self._role], reason=f"a name of {len(long[0])} characters")
        shape = Shape({}, [])
        found: dict[str, str] = {}
        for name in key:
            canonical = self.canonical(name)
            if canonical in found:
                shape.twins.append((canonical, found[canonical], name))
                if name != self._mapping.get(canonical):
                    continue
                shape.rest = [pair for pair in shape.rest if pair[1] != canonical]
            found[canonical] = name
            if canonical in self._placed:
                shape.names[canonical] = name
            else:
                shape.rest.append((name, canonical))
        shape.sources = {canonical: name for name, canonical in shape.rest} | shape.names
        return shape
