"""Looks at a sample of an export and says what it is, what would be unknown, and which request imports it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from operations.importers._export_rows import RawRow, rows_of
from operations.importers._fields import CORE, OBSERVATION, SCORE, TRACE, Shapes
from operations.importers._folders import find_files, full_path, names_in
from operations.importers._intake import BUNDLE
from operations.importers._streams import EvidenceRefused, format_of, opened
from storage.masking import Masker

SAMPLE = 50
"""Rows of a file that are looked at."""

MAX_SAMPLED = 40
"""Files that are looked at."""

_NAMES = {TRACE: "trace", OBSERVATION: "observation", SCORE: "score", BUNDLE: "bundle"}
_OUTPUTS = ("output", "answer", "response", "completion", "prediction", "result", "actual")
_INPUTS = ("input", "question", "prompt", "query", "request")
_TEXT = 80


@dataclass
class Suggestion:
    """What a sample says."""

    message: str = ""
    fits: dict[str, str] = field(default_factory=dict)
    """File → what its rows are."""
    unknown: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    request: dict[str, Any] = field(default_factory=dict)
    supply: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass
class _Sample:
    """The rows of one file that were looked at."""

    name: str
    rows: list[RawRow]
    damaged: int


def suggest(source: str, masker: Masker) -> Suggestion:
    """Returns what a sample of the export at `source` says.

    Raises:
        EvidenceRefused: There is nothing at `source`.
    """
    names = names_in(source)
    found = Suggestion()
    samples = [_sample(source, name, found) for name in names if format_of(name) is not None][:MAX_SAMPLED]
    roles = {sample.name: _role(sample) for sample in samples if sample.rows}
    if others := [name for name in names if format_of(name) is None]:
        found.warnings.append(f"no export: {', '.join(others)[:300]}")
    if not roles:
        found.message = "Nothing in the sample can be read as rows. Give an export in JSON, JSONL or CSV."
        found.supply = {"source": "an export with rows", "source_kind": "langfuse or batch_results"}
    elif any(role is not None for role in roles.values()):
        _langfuse(found, source, samples, roles)
    else:
        _results(found, samples, masker)
    return found


def _sample(source: str, name: str, found: Suggestion) -> _Sample:
    rows: list[RawRow] = []
    damaged = 0
    try:
        with opened(full_path(source, name)) as file:
            for row in islice(rows_of(file), SAMPLE):
                if isinstance(row, RawRow):
                    rows.append(row)
                else:
                    damaged += 1
                    where = f"line {row.line}" if row.line is not None else f"row {row.number}"
                    found.warnings.append(f"{name} {where}: {row.reason}"[:200])
    except EvidenceRefused as error:
        found.warnings.append(str(error)[:200])
    return _Sample(name, rows, damaged)


def _role(sample: _Sample) -> int | None:
    """What most rows of a file are; None for rows that are nothing of Langfuse's."""
    return Counter(_role_of(row) for row in sample.rows).most_common(1)[0][0]


def _role_of(row: RawRow) -> int | None:
    value = row.value
    names = set(value)
    if row.around is not None and (row.pointer or "").startswith(("/observations", "/scores", "/traces")):
        return BUNDLE
    if isinstance(value.get("trace"), dict) or isinstance(value.get("observations"), list):
        return BUNDLE
    traced = bool(names & {"traceId", "trace_id"})
    if names & {"dataType", "data_type"} and names & {"value", "stringValue", "string_value"}:
        return SCORE
    if traced and names & {"parentObservationId", "parent_observation_id", "startTime", "start_time"}:
        return OBSERVATION
    if "id" in names and "timestamp" in names and names & {"input", "output", "name", "sessionId", "session_id"}:
        return TRACE
    return None


def _langfuse(found: Suggestion, source: str, samples: list[_Sample], looked: Mapping[str, int | None]) -> None:
    roles = {name: role for name, role in looked.items() if role is not None}
    ignored = [name for name in looked if name not in roles]
    found.fits = {name: _NAMES[role] for name, role in roles.items()} | dict.fromkeys(ignored, "ignore")
    request: dict[str, Any] = {"source_kind": "langfuse"}
    kinds = set(roles.values())
    try:
        by_name = {file.name: file.role for file in find_files(source, None, {}).files}
    except EvidenceRefused:
        by_name = {}
    if not all(by_name.get(name) == role for name, role in roles.items()):
        if ignored:
            request["file_roles"] = dict(found.fits)
        elif kinds == {BUNDLE}:
            request["adapter_profile"] = "langfuse_trace_bundle"
        elif kinds == {OBSERVATION}:
            request["adapter_profile"] = "langfuse_observation_rows"
        else:
            request["file_roles"] = {name: _NAMES[role] for name, role in roles.items()}
    if columns := _json_columns(samples):
        request["json_columns"] = columns
    for role in (TRACE, OBSERVATION, SCORE):
        rows = [row.value for sample in samples for row in sample.rows if roles.get(sample.name) == role]
        if rows:
            shapes = Shapes(role, {}, ())
            seen = {shapes.canonical(name) for row in rows for name in row}
            lacking = [name for name in CORE[role] if name not in seen and name not in ("observations", "tags")]
            found.unknown += [f"{_NAMES[role]}.{name}" for name in lacking]
    if OBSERVATION in kinds and not kinds & {TRACE, BUNDLE}:
        found.unknown.append("a trace's own input and output, unless exactly one observation is its root")
    found.message = f"Langfuse: {', '.join(sorted({_NAMES[role] for role in kinds}))} rows. Send the request in next."
    found.request = request


def _json_columns(samples: list[_Sample]) -> list[str]:
    """The columns of CSV files whose cells hold JSON."""
    found: dict[str, None] = {}
    for sample in samples:
        if format_of(sample.name) == "csv":
            for row in sample.rows:
                found |= {name: None for name, cell in row.value.items() if str(cell).lstrip()[:1] in ("{", "[")}
                found |= {name: None for name, cell in row.value.items() if str(cell)[:2] in ('"{', '"[')}
    return list(found)[:20]


def _results(found: Suggestion, samples: list[_Sample], masker: Masker) -> None:
    columns: dict[str, None] = {}
    for sample in samples:
        found.fits[sample.name] = "row"
        for row in sample.rows:
            columns |= dict.fromkeys(row.value)
    found.columns = [str(masker.text(name[:_TEXT])) for name in list(columns)[:40]]
    mapping = {
        wanted: name
        for wanted, usual in (("input", _INPUTS), ("output", _OUTPUTS), ("case_id", ("case_id", "id")))
        if (name := next((name for name in usual if name in columns), None)) is not None
    }
    found.request = {"source_kind": "batch_results", "mapping": mapping}
    if "output" not in mapping:
        found.supply = {"mapping": "output (or scores), and input, case_id, repeat, expected: each a column"}
    found.unknown = [f"row.{name}" for name in ("input", "output", "case_id") if name not in mapping]
    found.unknown.append("what the agent did: rows of results hold no observations")
    found.message = "Rows of results, by the look of them. Check the mapping in next before you send it."
    if json_columns := _json_columns(samples):
        found.request["json_columns"] = json_columns
