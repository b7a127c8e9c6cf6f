"""Turns rows of results into records by an explicit mapping: nothing is taken from a column that was not named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from operations.importers._cells import decoded, has_not_finite
from operations.importers._json_values import NotFinite
from operations.importers._scores import number_of
from operations.importers._streams import EvidenceRefused
from operations.importers._tally import OUTCOMES


@dataclass(kw_only=True, eq=False)
class ResultsMappingMissing(EvidenceRefused):
    """Rows of results say nothing of themselves, so the columns have to be named."""

    message = (
        "batch_results needs mapping.output, or mapping.scores, naming the column to read; mapping.input, case_id, "
        "repeat and expected where there are such columns. A call with dry_run shows the columns."
    )


@dataclass(kw_only=True, eq=False)
class ResultsColumnMissing(EvidenceRefused):
    """The mapping names a column that no row has."""

    message = (
        "mapping.{field} names the column {column!r}, which no row has. Nothing was stored. Name one of the columns: "
        "{found}."
    )

    field: str
    column: str
    found: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column each field is read from."""

    input: str | None = None
    output: str | None = None
    case_id: str | None = None
    repeat: str | None = None
    expected: str | None = None
    scores: Mapping[str, str] = field(default_factory=dict)
    """Name of a score → its column."""

    def named(self) -> dict[str, str]:
        """Returns field → column of those that were given."""
        fields = ("input", "output", "case_id", "repeat", "expected")
        found = {name: getattr(self, name) for name in fields if getattr(self, name) is not None}
        return {**found, **{f"scores.{name}": column for name, column in self.scores.items()}}


class ResultReader:
    """Reads rows of results. One serves a whole import."""

    def __init__(self, columns: Columns, namespace: str, json_columns: tuple[str, ...]) -> None:
        """Keeps the mapping.

        Raises:
            ResultsMappingMissing: It names neither an output nor scores.
        """
        if columns.output is None and not columns.scores:
            raise ResultsMappingMissing
        self._columns = columns
        self._namespace = namespace
        self._json = frozenset(json_columns)
        self._named = columns.named()
        self._seen: dict[str, None] = {}
        self.rows = 0
        self.counts: dict[str, dict[str, int]] = {f"row.{name}": dict.fromkeys(OUTCOMES, 0) for name in self._named}
        self.scores = {"valid_scores": 0, "invalid_scores": 0}

    def record(self, row: Mapping[str, Any], locator: dict[str, Any], *, case: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the record of one row. `case` is the row before masking, of which only marks are read."""
        self.rows += 1
        if len(self._seen) < 10_000:  # noqa: PLR2004 - more columns than any table has
            self._seen.update(dict.fromkeys(row))
        found: dict[str, Any] = {
            "source": {"namespace": self._namespace, "trace_id": None},
            "trace_row": True,
            "log": {"events": []},
            "missing": ["observations", "execution_identity"],
            "locators": [locator],
        }
        for name in ("input", "output"):
            found[name] = self._field(name, row, case)
        if self._columns.expected is not None:
            found["expected"] = self._field("expected", row, case)
        if (case_id := self._plain("case_id", row)) is not None:
            found["case_id"] = str(case_id)
        if (repeat := self._repeat(row)) is not None:
            found["repeat"] = repeat
        if scores := [self._score(name, column, row, locator) for name, column in self._columns.scores.items()]:
            found["scores"] = scores
        used = set(self._named.values())
        if rest := {name: value for name, value in row.items() if name not in used}:
            found["runtime_metadata"] = rest
        return found

    def check(self) -> None:
        """Refuses a mapping that led nowhere.

        Raises:
            ResultsColumnMissing: No row had the column.
        """
        for name, column in self._named.items():
            if column not in self._seen:
                raise ResultsColumnMissing(field=name, column=column, found=tuple(self._seen)[:20])

    def fields(self) -> dict[str, dict[str, int]]:
        """Returns `row.<field>` → outcome → rows, of those that are not zero."""
        return {name: {o: n for o, n in counts.items() if n} for name, counts in self.counts.items()}

    def _field(self, name: str, row: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
        column = getattr(self._columns, name)
        if column is None:
            return {"status": "not_exported"}
        outcome, found = self._value(column, row, case)
        self.counts[f"row.{name}"][outcome] += 1
        return {**found, **({"source": f"column:{column}"} if "value" in found else {})}

    def _value(self, column: str, row: Mapping[str, Any], case: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        if column not in row:
            return "unknown", {"status": "not_exported"}
        value = row[column]
        if value is None:
            return "unknown", {"status": "null"}
        if value == "":
            return "kept", {"status": "empty"}
        if isinstance(case.get(column), NotFinite):
            return "unparsable", {"status": "unparsable", "value": str(value)}
        if column in self._json and isinstance(value, str):
            cell = decoded(value)
            return ("kept" if cell.status == "value" else "unparsable"), {"status": cell.status, "value": cell.value}
        return ("lossy" if has_not_finite(case.get(column)) else "kept"), {"status": "value", "value": value}

    def _plain(self, name: str, row: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        column = getattr(self._columns, name)
        value = row.get(column) if column is not None else None
        if column is not None:
            self.counts[f"row.{name}"]["unknown" if value in (None, "") else "kept"] += 1
        return None if value == "" else value

    def _repeat(self, row: Mapping[str, Any]) -> int | None:
        value = self._plain("repeat", row)
        number = number_of(value)
        if value is not None and (number is None or number < 1 or number != int(number)):
            self.counts["row.repeat"]["kept"] -= 1
            self.counts["row.repeat"]["unparsable"] += 1
            return None
        return int(number) if number is not None else None

    def _score(self, name: str, column: str, row: Mapping[str, Any], locator: dict[str, Any]) -> dict[str, Any]:
        """Returns a column's value as a score: a number or a truth; what should be one and is none is unparsable."""
        given = row.get(column)
        kind, value, status = "numeric", number_of(given), "value"
        if isinstance(given, bool):
            kind, value = "boolean", given
        if value is None:
            status = "not_exported" if column not in row else "null" if given in (None, "") else "unparsable"
            value = given
        outcome = {"value": "kept", "unparsable": "unparsable"}.get(status, "unknown")
        self.counts[f"row.scores.{name}"][outcome] += 1
        self.scores["valid_scores" if status == "value" else "invalid_scores"] += status in ("value", "unparsable")
        return {
            "id": None,
            "name": name,
            "type": kind,
            "status": status,
            "value": value,
            "subject_kind": "trace",
            "subject_id": None,
            "locator": locator,
        }
