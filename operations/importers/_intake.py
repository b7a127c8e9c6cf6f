"""Takes rows in: cuts bundles into traces, observations and scores, masks each, and files it under its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from operations.importers._cells import has_not_finite
from operations.importers._export_rows import RawRow
from operations.importers._fields import OBSERVATION, SCORE, TRACE
from operations.importers._json_values import NotFinite, dumps
from operations.importers._sieve import Sieve
from operations.importers._sorting import Row
from storage.masking import MaskedText, Masker

UNATTACHED = b"\xff"
"""Sorts after every trace id, which is UTF-8; holds the scores of no trace."""

LOOSE = 1
"""A flag: text fields of the row are raw text, whatever the value was."""

PLAIN = 2
"""A flag: the fast parser reads the payload as it was meant, whatever numbers are in it."""

BUNDLE = 3
"""A role: rows are traces with what belongs to them."""

_CHILDREN = {"observations": OBSERVATION, "scores": SCORE, "traces": BUNDLE}


class Filed(NamedTuple):
    """A row as it is sorted: by trace, role and number."""

    trace: bytes
    role: int
    number: int
    file: int
    row: int
    line: int | None
    pointer: str | None
    flags: int
    marks: str | None
    """JSON: the row's own name of a field → its status, where the parser already knows it."""
    payload: bytes


class Places:
    """Says where a row was read, for a record and for a person."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files

    def locator(self, filed: Filed) -> dict[str, Any]:
        """Returns the place as a record keeps it."""
        found: dict[str, Any] = {"file": self._files[filed.file], "row": filed.row}
        if filed.line is not None:
            found["line"] = filed.line
        if filed.pointer:
            found["pointer"] = filed.pointer
        return found

    def shown(self, filed: Filed) -> str:
        """Returns the place in words."""
        where = f"line {filed.line}" if filed.line is not None else filed.pointer or f"row {filed.row}"
        return f"{self._files[filed.file]} {where}"


class Part(NamedTuple):
    """One trace, observation or score of a row."""

    role: int
    value: dict[str, Any]
    pointer: str | None
    flags: int = 0
    trace: Any = None
    """The id of the trace in which it stood, for a part that names none itself."""


class Unplaced(ValueError):
    """A row cannot be filed; the text says why."""


class Guard:
    """Masks rows. It is the only way of a row into the store."""

    def __init__(self, masker: Masker) -> None:
        """Masks by the project's rules. Who stores what was masked has `second_look`, if any, look at all of it."""
        self._masker = masker.by_rules()
        self._sieve = Sieve(masker.redact_keys, masker.patterns)
        self.second_look = masker.second_look
        self.masked_rows = 0

    @property
    def has_patterns(self) -> bool:
        """Whether the project has patterns of its own; what they take is counted by the operation's one masker."""
        return self._masker.patterns is not None

    def text(self, text: str) -> MaskedText:
        """Returns a text without credentials."""
        return self._masker.text(text)

    def masked(self, value: dict[str, Any], raw: bytes | None) -> tuple[dict[str, Any], bytes]:
        """Returns the row without credentials, and its JSON. `raw` is its JSON, if known."""
        text = raw if raw is not None else dumps(value)
        if self._sieve.clean(text):
            return value, text
        masked: dict[str, Any] = self._masker.value(value)
        self.masked_rows += masked != value
        return masked, dumps(masked)


class Intake:
    """Files the rows of Langfuse exports."""

    def __init__(self, add: Callable[[Row], object], guard: Guard, mappings: tuple[Mapping[str, str], ...]) -> None:
        """`add` takes each; `mappings` are {canonical: source} for trace, observation and score."""
        self._add = add
        self._guard = guard
        self._trace_names = (
            _names(mappings[TRACE].get("id"), "id", "traceId", "trace_id"),
            _names(mappings[OBSERVATION].get("trace_id"), "traceId", "trace_id"),
            _names(mappings[SCORE].get("trace_id"), "traceId", "trace_id"),
        )
        self.number = 0
        """Of the part that was filed last; it orders what is filed."""
        self.ids_only = 0
        """Rows that name their observations or scores by id and do not hold them."""

    def take(self, file: int, row: RawRow, role: int) -> None:
        """Files one row.

        Raises:
            Unplaced: The row names no trace.
        """
        value = row.value
        if role in (OBSERVATION, SCORE) and row.around is None:
            self._file(file, row, Part(role, value, row.pointer), row.raw)
            return
        if role == TRACE and row.raw is not None and _CHILDREN.keys().isdisjoint(value) and "trace" not in value:
            self._file(file, row, Part(TRACE, value, None), row.raw)
            return
        for part in self._parts(row, role):
            self._file(file, row, part, None)

    def _file(self, file: int, row: RawRow, part: Part, raw: bytes | None) -> None:
        value, payload = self._guard.masked(part.value, raw)
        marks = None if row.plain else _marks(part.value)
        flags = part.flags | PLAIN if payload is raw else part.flags
        key = self._key(part.role, value, part.trace)
        self.number += 1
        # A plain tuple, in the order of `Filed`: that is what can be written fast.
        self._add((key, part.role, self.number, file, row.number, row.line, part.pointer, flags, marks, payload))

    def _key(self, role: int, value: dict[str, Any], default: Any) -> bytes:  # noqa: ANN401 - JSON
        found: Any = None
        for name in self._trace_names[role]:
            found = value.get(name)
            if found is not None and found != "":
                break
        else:
            found = (_subject_trace(value) if role == SCORE else None) or default
        if isinstance(found, str) and found:
            return found.encode("utf-8", "surrogatepass")
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found).encode()
        if role == SCORE and found is None:
            return UNATTACHED
        raise Unplaced("it has no id" if role == TRACE else "it names no trace")

    # -- bundles -------------------------------------------------------------------------------------------------------

    def _parts(self, row: RawRow, role: int) -> Iterator[Part]:
        member = (row.pointer or "").split("/")[1:2]
        if row.around is not None and member and member[0] in _CHILDREN:
            within = row.around.get("trace")
            trace = row.around.get("id") or (within.get("id") if isinstance(within, dict) else None)
            flags = 0 if row.around.get("id") else LOOSE
            own = _CHILDREN[member[0]]
            if own != BUNDLE:
                yield Part(own, row.value, row.pointer, flags, trace)
                return
            yield from self._bundle(row.value, row.pointer or "", flags)
        elif role in (OBSERVATION, SCORE):
            yield Part(role, row.value, row.pointer)
        else:
            yield from self._bundle(row.value, row.pointer or "", 0)

    def _bundle(self, value: dict[str, Any], pointer: str, flags: int) -> Iterator[Part]:
        """Cuts a bundle: a trace with its observations in it, or an object that holds the trace beside them."""
        inner = value.get("trace")
        wrapped = isinstance(inner, dict)
        trace: dict[str, Any] = inner if isinstance(inner, dict) else value
        own = {name: item for name, item in trace.items() if not self._are_rows(name, item)}
        trace_id = next((own[name] for name in self._trace_names[TRACE] if own.get(name) not in (None, "")), None)
        if wrapped or trace_id is None:
            flags = LOOSE  # the form of a download, which holds raw text
        if wrapped or trace_id is not None or _CHILDREN.keys().isdisjoint(value):
            yield Part(TRACE, own, f"{pointer}/trace" if wrapped else pointer or None, flags)
        places = [(value, pointer), *([(trace, f"{pointer}/trace")] if wrapped else [])]
        for holder, place in places:
            for name, child in _CHILDREN.items():
                items: Any = holder.get(name)
                for number, item in enumerate(items if self._are_rows(name, items) else ()):
                    at = f"{place}/{name}/{number}"
                    if not isinstance(item, dict):
                        self.ids_only += 1
                    elif child == BUNDLE:
                        yield from self._bundle(item, at, flags)
                    else:
                        yield Part(child, item, at, flags, trace_id)

    @staticmethod
    def _are_rows(name: str, items: Any) -> bool:  # noqa: ANN401 - JSON
        """Tells a bundle's rows from a score column of the same name, which holds numbers."""
        return name in _CHILDREN and isinstance(items, list) and all(isinstance(item, dict | str) for item in items)


def _names(given: str | None, *usual: str) -> tuple[str, ...]:
    return (given,) if given else usual


def _subject_trace(value: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """The trace that a score of the newer form is about."""
    subject = value.get("subject")
    if not isinstance(subject, dict):
        return None
    return subject.get("traceId") or (subject.get("id") if subject.get("kind") == "trace" else None)


def _marks(value: dict[str, Any]) -> str | None:
    found = {
        name: "unparsable" if isinstance(item, NotFinite) else "lossy"
        for name, item in value.items()
        if isinstance(item, str | dict | list) and has_not_finite(item)
    }
    return dumps(found).decode() if found else None
