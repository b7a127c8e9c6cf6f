"""Reads Cases from a table of rows: which column is which field, and what a row may say."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from operations.importers._attachments import attachments
from operations.importers._cases_split import group_key
from operations.importers._rows import Row, SourceRefused, shown
from operations.importers._tables import open_table
from storage.errors import AtkError, NextCall
from storage.frames import canonical, digest
from storage.schema.datasets import Attachment, Case, CaseSource, Usage

CaseField = Literal["input", "id", "expected", "usage", "source_group_id", "initial_conditions", "attachments"]
FIELDS: tuple[CaseField, ...] = get_args(CaseField)
USAGES: tuple[Usage, ...] = get_args(Usage)
MAX_ID = 512

Assign = Callable[[str, Usage | None, Any], Usage]
"""Gives a Case its usage: from what must stay together (`group_key`), the usage in the source, and the input."""


@dataclass(kw_only=True, eq=False)
class MappingFieldUnknown(AtkError):
    """A mapping names a field that a Case does not have."""

    message = "A Case has no field {field!r}{suggestion}. The fields are {allowed}; each is mapped to a column's name."
    next_calls = (NextCall("store_dataset", supply={"mapping": "field of a Case to column of the source"}),)

    field: str
    allowed: tuple[str, ...] = FIELDS
    suggestion: str = ""


@dataclass(kw_only=True, eq=False)
class ColumnMissing(SourceRefused):
    """A column that a field is read from is not there."""

    message = (
        "Row {row} of {path} has no column {column!r} for the field {field}{suggestion}. "
        "Its columns are {columns}. Map {field} to one of them."
    )
    next_calls = (NextCall("store_dataset", {"source": "{path}"}, supply={"mapping": "{field} to one of the columns"}),)

    row: int
    field: str
    column: str
    columns: tuple[str, ...]
    suggestion: str = ""


@dataclass(kw_only=True, eq=False)
class CaseIdInvalid(SourceRefused):
    """A Case's id is not a short printable text or a number."""

    message = (
        "Row {row} of {path}: the column {column} holds {given}, which cannot be a Case id. An id is a number or "
        "printable text of 1 to 512 characters; an empty one becomes case-{row}."
    )

    row: int
    column: str
    given: str


@dataclass(kw_only=True, eq=False)
class CaseIdTwice(SourceRefused):
    """Two rows name one Case."""

    message = (
        "Row {row} of {path}: the Case id {case_id!r} was given in row {first_row} already. "
        "Give each Case an id of its own; an empty one is made from the row's number."
    )

    row: int
    first_row: int
    case_id: str


@dataclass(kw_only=True, eq=False)
class UsageUnknown(SourceRefused):
    """A usage is none of those that there are."""

    message = (
        "Row {row} of {path}: the column {column} holds {given}, which is no usage{suggestion}. "
        "Allowed: {allowed}; empty means optimization."
    )

    row: int
    column: str
    given: str
    allowed: tuple[str, ...] = USAGES
    suggestion: str = ""


@dataclass(kw_only=True, eq=False)
class SourceGroupSplit(SourceRefused):
    """Cases that stem from one source are both holdout and not, so the holdout would not be unseen."""

    message = (
        "Row {row} of {path}: the source group {group!r} is {usage} here and {first_usage} in row {first_row}. "
        "Give the whole group one usage: it is holdout as a whole or not at all."
    )

    row: int
    first_row: int
    group: str
    usage: str
    first_usage: str


@dataclass(kw_only=True, eq=False)
class SourceGroupNotText(SourceRefused):
    """A source group is named by text."""

    message = "Row {row} of {path}: the column {column} holds {given}. A source group is named by text, or empty."

    row: int
    column: str
    given: str


class CaseReader:
    """The Cases of one source. Iterate once; the other members are complete when iteration has ended."""

    def __init__(self, source: str, mapping: Mapping[str, str], root: str, *, assign: Assign | None = None) -> None:
        """Checks the mapping and the file's name; nothing is opened yet. See `read_cases`."""
        for name in mapping:
            if name not in FIELDS:
                raise MappingFieldUnknown(field=name, suggestion=_suggestion(name, FIELDS))
        self.source_name = os.path.basename(source)
        self.mapping: dict[str, str] = {}
        """Which column each field was read from."""
        self.warnings: list[str] = []
        """What was left out, in words."""
        self.usage_counts: dict[Usage, int] = dict.fromkeys(USAGES, 0)
        self.case_count = 0
        self.attachment_bytes = 0
        """Size of all attachments in bytes, each file counted once for each time it is named."""
        self._given = dict(mapping)
        self._rows = open_table(source)
        self._root = root
        self._assign = assign
        self._ids: dict[str, int] = {}
        self._groups: dict[str, tuple[int, Usage]] = {}

    @property
    def source_sha256(self) -> str:
        """Digest of the source's bytes as they were read; empty until iteration has ended."""
        return self._rows.sha256

    def __iter__(self) -> Iterator[Case]:
        """Yields the Cases in the order of the source."""
        for row in self._rows:
            case = self._case(row)
            self.case_count += 1
            self.usage_counts[case.usage] += 1
            self.attachment_bytes += sum(file.bytes for file in case.attachments)
            yield case
        for name, column in self._given.items():
            self._require(name, column, self._rows.columns, row=1)
        dropped = [column or "(unnamed)" for column in self._rows.columns if column not in self.mapping.values()]
        if dropped:
            self.warnings.append(
                f"Left out, because no field of a Case is read from them: {', '.join(dropped)}. Map what is needed."
            )

    def _case(self, row: Row) -> Case:
        if row.number == 1 and self._rows.is_csv:
            for name, mapped in self._given.items():
                self._require(name, mapped, self._rows.columns, row=1)
        values = {name: row.values[column] for name in FIELDS if (column := self._column(name, row)) is not None}
        if "input" not in values:
            self._require("input", self._given.get("input", "input"), list(row.values), row=row.number)
        expected = values.get("expected")
        present = "expected" in values and not (self._rows.is_csv and expected == "")
        given = self._usage(values.get("usage"), row.number)
        files = self._attachments(values.get("attachments"), row.number, blind=given == "holdout")
        content: dict[str, Any] = {
            "id": self._id(values.get("id"), row.number),
            "input": values["input"],
            "expected_present": present,
            "expected": expected if present else None,
            "source_group_id": self._group(values.get("source_group_id"), given or "optimization", row.number),
            "initial_conditions": values.get("initial_conditions"),
        }
        content["usage"] = given or "optimization"
        if self._assign is not None:
            named = [file.sha256 for file in files]
            key = group_key(content["source_group_id"], {**content, "attachments": named})
            content["usage"] = self._assign(key, given, content["input"])
        return Case(
            **content,
            attachments=files,
            source=CaseSource(path=self.source_name, row=row.number),
            fingerprint=fingerprint(content, files),
        )

    def _column(self, name: CaseField, row: Row) -> str | None:
        """Returns the column that a field is read from, when the row has it."""
        column = self._given.get(name, name)
        taken = name not in self._given and column in self._given.values()
        if taken or column not in row.values:
            return None
        self.mapping[name] = column
        return column

    def _require(self, name: str, column: str, columns: list[str], *, row: int) -> None:
        if column not in columns:
            raise ColumnMissing(
                path=self._rows.path,
                row=row,
                field=name,
                column=column,
                columns=tuple(columns),
                suggestion=_suggestion(column, columns),
            )

    def _id(self, given: Any, row: int) -> str:  # noqa: ANN401 - JSON
        case_id = f"case-{row}" if given is None or given == "" else str(given)
        scalar = given is None or (isinstance(given, str | int | float) and not isinstance(given, bool))
        if not scalar or len(case_id) > MAX_ID or not case_id.isprintable() or not case_id.strip():
            raise CaseIdInvalid(path=self._rows.path, row=row, column=self.mapping["id"], given=shown(given))
        if case_id in self._ids:
            raise CaseIdTwice(path=self._rows.path, row=row, first_row=self._ids[case_id], case_id=case_id)
        self._ids[case_id] = row
        return case_id

    def _usage(self, given: Any, row: int) -> Usage | None:  # noqa: ANN401 - JSON
        if given is None or given == "":
            return None
        if given not in USAGES:
            raise UsageUnknown(
                path=self._rows.path,
                row=row,
                column=self.mapping["usage"],
                given=shown(given),
                suggestion=_suggestion(str(given), USAGES),
            )
        return cast("Usage", given)

    def _group(self, given: Any, usage: Usage, row: int) -> str | None:  # noqa: ANN401 - JSON
        if given is None or given == "":
            return None
        if not isinstance(given, str):
            column = self.mapping["source_group_id"]
            raise SourceGroupNotText(path=self._rows.path, row=row, column=column, given=shown(given))
        first_row, first_usage = self._groups.setdefault(given, (row, usage))
        if (usage == "holdout") != (first_usage == "holdout"):
            raise SourceGroupSplit(
                path=self._rows.path, row=row, first_row=first_row, group=given, usage=usage, first_usage=first_usage
            )
        return given

    def _attachments(self, given: Any, row: int, *, blind: bool) -> tuple[Attachment, ...]:  # noqa: ANN401 - JSON
        column = self.mapping.get("attachments", "attachments")
        return attachments(given, source=self._rows.path, root=self._root, row=row, column=column, blind=blind)


def read_cases(
    source: str,
    mapping: Mapping[str, str] | None = None,
    *,
    root: str,
    assign: Assign | None = None,
) -> CaseReader:
    """Returns the Cases in a table, read one row at a time as they are asked for; see `_tables` for the formats.

    A field that `mapping` leaves out is read from the column of its own name, where there is one. An id that is not
    given becomes `case-<row>`; 0 is an id. Cells of a CSV are text as it is, and an empty `expected` cell means that
    there is no expected answer; in JSON a present `expected` counts even when it is null or empty.

    Args:
        source: The file's path.
        mapping: Field of a Case to column of the source; `input`, `id`, `expected`, `usage`, `source_group_id`,
            `initial_conditions`, `attachments`.
        root: The project's folder: attachments lie in it.
        assign: Gives each Case its usage; without it, the source's own stands, and none means optimization.

    Raises:
        MappingFieldUnknown: `mapping` names a field that a Case does not have.
        SourceRefused: While iterating: the file or a row cannot be taken, and then none of it should be stored.
    """
    return CaseReader(source, mapping or {}, root, assign=assign)


def fingerprint(content: Mapping[str, Any], files: tuple[Attachment, ...] = ()) -> str:
    """Returns the identity of a Case's content: the digest of all its fields but `source`, `origin` and itself.

    An attachment counts by its file name and its digest, not by its folder, so that a project may be moved.
    """
    named = [{"name": os.path.basename(file.path), "sha256": file.sha256} for file in files]
    return digest(canonical({**content, "attachments": named}))


def _suggestion(given: str, allowed: tuple[str, ...] | list[str]) -> str:
    close = difflib.get_close_matches(given.casefold(), [name.casefold() for name in allowed], n=1)
    match = next((name for name in allowed if close and name.casefold() == close[0]), None)
    return f" (did you mean {match!r}?)" if match else ""
