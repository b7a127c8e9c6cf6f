"""Looks at a sample of an export and says what it is, what would be unknown, and which request imports it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

from pydantic import BaseModel

from operations.importers import answers
from operations.importers._beginnings import beginning
from operations.importers._export_rows import RawRow, rows_of
from operations.importers._folders import full_path, names_in
from operations.importers._json_values import printable
from operations.importers._source import Format, Sample, Suggestion
from operations.importers._streams import EvidenceRefused, format_of, opened
from operations.importers.sources import FORMATS
from storage.masking import Masker

SAMPLE = 50
"""Rows of a file that are looked at."""

MAX_SAMPLED = 40
"""Files that are looked at."""

_NAME = 100
"""Bytes of JSON that a name may take in an answer."""

_OF_ANY_KIND = frozenset({"source_namespace", "mapping_version", "filtered_scope", "max_damaged"})
"""Fields of a request that hold whatever the export turns out to be."""


def suggest(source: str, masker: Masker) -> Suggestion:
    """Returns what a sample of the export at `source` says.

    Raises:
        EvidenceRefused: There is nothing at `source`.
    """
    names = names_in(source)
    found = Suggestion()
    readable = [name for name in names if _is_read(name)]
    samples = [_sample(source, name, found) for name in _spread(readable)]
    if len(readable) > len(samples):
        found.warnings.append(f"{len(samples)} of {len(readable)} files were looked at")
    if others := [name for name in names if not _is_read(name)]:
        found.warnings.append(f"no export: {printable(', '.join(others))[:300]}")
    told = [sample for sample in samples if sample.rows]
    if not told:
        found.message = "Nothing in the sample can be read as rows. Give an export in JSON, JSONL or CSV."
        found.supply = {"source": "an export with rows", "source_kind": " or ".join(FORMATS)}
        return found
    chosen = _best(told)
    chosen.suggest(found, source, samples, {sample.name: _role(chosen, sample) for sample in told}, masker)
    return found


def _spread(names: list[str]) -> list[str]:
    """Returns as many names as are looked at, some of each folder: its files mostly hold one kind of row."""
    places: Counter[str] = Counter()
    ranked: list[tuple[int, str]] = []
    for name in names:
        folder = name.rpartition("/")[0]
        ranked.append((places[folder], name))
        places[folder] += 1
    return sorted(name for _, name in sorted(ranked)[:MAX_SAMPLED])


def kept(request: BaseModel, suggested: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the suggested fields, and over them what the dry run was called with: nobody has to say that twice."""
    said = request.model_dump(
        mode="json", exclude_defaults=True, exclude={"project_path", "request_id", "source", "dry_run", "wait_seconds"}
    )
    if suggested.get("source_kind") != said["source_kind"]:
        said = {name: value for name, value in said.items() if name in _OF_ANY_KIND}
    mapping = {**suggested.get("mapping", {}), **said.pop("mapping", {})}
    files = {"file_roles", "adapter_profile"}
    found = {name: value for name, value in suggested.items() if name not in files or not files & said.keys()}
    return {**found, **said, **({"mapping": mapping} if mapping or "mapping" in suggested else {})}


def shown(found: Suggestion) -> dict[str, Any]:
    """Returns what an answer has room for of what was found, and warns of what it has not."""
    fits = answers.first_items(found.fits.items(), 1_200, each=_NAME)
    rest = {"unknown": (found.unknown, 600), "columns": (found.columns, 800)}
    lists = {name: answers.first_texts(texts, room, each=_NAME) for name, (texts, room) in rest.items()}
    cut = [f"{len(fits)} of {len(found.fits)} files in fits"] if len(fits) < len(found.fits) else []
    cut += [
        f"{len(lists[name])} of {len(texts)} in {name}"
        for name, (texts, _) in rest.items()
        if texts[len(lists[name]) :]
    ]
    if cut:
        found.warnings.insert(0, f"this answer shows only {', '.join(cut)}")
    return {"fits": fits, **lists}


def _is_read(name: str) -> bool:
    return format_of(name) is not None or _of_its_own(name) is not None


def _of_its_own(name: str) -> Format | None:
    """Returns the format that alone reads files with this ending."""
    return next((one for one in FORMATS.values() if one.endings and name.lower().endswith(one.endings)), None)


def _sample(source: str, name: str, found: Suggestion) -> Sample:
    rows: list[RawRow] = []
    damaged = 0
    own = _of_its_own(name)
    read = own.rows if own is not None and own.rows is not None else rows_of
    try:
        with opened(full_path(source, name)) as file:
            for row in islice(read(file), SAMPLE):
                if isinstance(row, RawRow):
                    rows.append(row)
                else:
                    damaged += 1
                    where = f"line {row.line}" if row.line is not None else f"row {row.number}"
                    found.warnings.append(f"{printable(name)} {where}: {printable(row.reason)}"[:200])
    except EvidenceRefused as error:
        found.warnings.append(printable(str(error))[:200])
    if not rows and own is None and format_of(name) == "json" and (first := _beginning(source, name)) is not None:
        found.warnings.append(f"{printable(name)} was looked at only as far as its first megabyte")
        rows.append(RawRow(1, None, None, first, plain=False))
    return Sample(printable(name), rows, damaged)


def _beginning(source: str, name: str) -> dict[str, Any] | None:
    """Returns what a document begins with of which one value is longer than is read at once."""
    try:
        with opened(full_path(source, name)) as file:
            return beginning(next(file.chunks(), b""))
    except EvidenceRefused:
        return None  # told where its rows were read


def _best(samples: list[Sample]) -> Format:
    """Returns the format that recognises most files, then most rows; the last one, which takes any, where none does."""
    *formats, anything = FORMATS.values()
    scores = [
        (sum(_role(one, sample) is not None for sample in samples), sum(_known(one, sample) for sample in samples))
        for one in formats
    ]
    best = max(scores)
    return formats[scores.index(best)] if best[0] else anything


def _known(one: Format, sample: Sample) -> int:
    return sum(one.role_of(row) is not None for row in sample.rows)


def _role(one: Format, sample: Sample) -> int | None:
    """What most rows of a file are in a format; None for rows that are nothing of it."""
    return Counter(one.role_of(row) for row in sample.rows).most_common(1)[0][0]
