"""Reads the samples of inspect_ai logs, `.eval` and `.json`, one at a time, and what the log says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from operations.importers._export_rows import Damage, RawRow
from operations.importers._inspect_samples import one_form, ranges
from operations.importers._inspect_zip import HEADER, REDUCTIONS, START, SUMMARIES, LogArchive, NotAnInspectLog
from operations.importers._json_stream import JsonBroken
from operations.importers._json_stream import _Text as Text
from operations.importers._json_values import parse, why
from operations.importers._streams import Opened

_SAMPLE = re.compile(r"samples/(.+)\.json")
_SHELL = re.compile(r"(samples/.+)/sample\.json")
_CHUNK = re.compile(r"(messages|events|attachments)/([0-9]{1,12})\.json")


@dataclass
class Log:
    """What a log says of itself, complete once its samples were read."""

    header: dict[str, Any] = field(default_factory=dict)
    """Everything but the samples."""
    reductions: list[Any] = field(default_factory=list)
    sample_names: int | None = None
    """How many samples its summaries name."""
    replaced: int = 0
    """Members of the archive that a later one of the same name replaced."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The part that says what was run."""
        found = self.header.get("eval")
        return found if isinstance(found, Mapping) else {}


def is_log(value: Mapping[str, Any]) -> bool:
    """Returns whether a document is a log, or begins as one."""
    spec = value.get("eval")
    return isinstance(spec, Mapping) and "task" in spec and ("status" in value or "plan" in value)


# -- .eval -------------------------------------------------------------------------------------------------------------


def archive_rows(path: str, log: Log) -> Iterator[RawRow | Damage]:
    """Yields the samples of a `.eval` file in the order of their members' names.

    Raises:
        EvidenceRefused: The file cannot be read as a log.
    """
    with LogArchive(path) as archive:
        names = archive.names
        log.replaced = archive.replaced
        log.header = _header(archive, HEADER if HEADER in names else START)
        if START in names and HEADER not in names:
            log.header.setdefault("status", "started")
        if REDUCTIONS in names:
            log.reductions = _listed(archive, REDUCTIONS)
        if SUMMARIES in names:
            log.sample_names = len(_listed(archive, SUMMARIES))
        chunks = _chunks(names)
        number = 0
        for name in names:
            shell = _SHELL.fullmatch(name)
            if shell is None and (not _SAMPLE.fullmatch(name) or _of_chunks(name, chunks)):
                continue
            number += 1
            yield _archived(archive, number, name, chunks.get(shell[1]) if shell else None)


def _archived(archive: LogArchive, number: int, name: str, chunks: Mapping[str, list[str]] | None) -> RawRow | Damage:
    try:
        value, plain = parse(archive.read(name))
        if chunks is not None:
            value = _joined(archive, value, chunks)
        return RawRow(number, None, f"/{name}", one_form(value), None, plain)
    except (ValueError, RecursionError) as error:
        return Damage(number, None, f"{name}: {why(error)}")


def _header(archive: LogArchive, name: str) -> dict[str, Any]:
    try:
        value, _ = parse(archive.read(name))
    except (ValueError, RecursionError) as error:
        raise NotAnInspectLog(path=archive.path, reason=f"{name}: {why(error)}") from None
    return value


def _listed(archive: LogArchive, name: str) -> list[Any]:
    """Returns the list that a member holds; one that cannot be read is none, since its log holds the same elsewhere."""
    try:
        return _items(archive, name)
    except (ValueError, RecursionError):
        return []


def _items(archive: LogArchive, name: str) -> list[Any]:
    """Returns the list that a member holds.

    Raises:
        ValueError: It holds none.
    """
    value, _ = parse(b'{"all":' + archive.read(name) + b"}")
    if not isinstance(value["all"], list):
        raise ValueError(f"{name} is not a JSON array in [ ]")  # noqa: TRY004 - what is wrong is the text
    return value["all"]


def _chunks(names: list[str]) -> dict[str, dict[str, list[str]]]:
    """Returns the folder of each sample that is stored in chunks → sequence → its members in order."""
    found: dict[str, dict[str, list[str]]] = {
        shell[1]: {} for name in names if (shell := _SHELL.fullmatch(name)) is not None
    }
    for name in names:
        folder, _, _ = name.rpartition("/")
        holder, _, _ = folder.rpartition("/")
        if holder in found and _CHUNK.fullmatch(name[len(holder) + 1 :]):
            found[holder].setdefault(folder[len(holder) + 1 :], []).append(name)
        elif folder in found and name.endswith("/metadata.json"):
            found[folder]["metadata"] = [name]
    for sequences in found.values():
        for members in sequences.values():
            members.sort(key=lambda name: (len(name), name))
    return found


def _of_chunks(name: str, chunks: Mapping[str, object]) -> bool:
    parts = name.split("/")
    return any("/".join(parts[:size]) in chunks for size in range(2, len(parts)))


def _joined(archive: LogArchive, shell: dict[str, Any], chunks: Mapping[str, list[str]]) -> dict[str, Any]:
    """Returns the sample whose parts stand in chunks: its messages are numbers into the pool."""
    found: dict[str, list[Any]] = {}
    for sequence, names in chunks.items():
        if sequence != "metadata":
            found[sequence] = [item for name in names for item in _items(archive, name)]
    made = dict(shell)
    pool = found.get("messages", [])
    made["messages"] = [pool[place] for place in ranges(made.pop("message_refs", None), len(pool))]
    made["events"] = found.get("events", [])
    made["events_data"] = {"messages": pool}
    made["attachments"] = {str(place): text for place, text in enumerate(found.get("attachments", []))}
    if "metadata" in chunks:
        made["metadata"], _ = parse(archive.read(chunks["metadata"][0]))
    return made


# -- .json -------------------------------------------------------------------------------------------------------------


def document_rows(opened: Opened, log: Log) -> Iterator[RawRow | Damage]:
    """Yields the samples of a `.json` log as they are read.

    Raises:
        EvidenceRefused: The file cannot be read as a log.
    """
    text = Text(opened.chunks())
    number = 0
    try:
        if text.peek() != "{":
            raise NotAnInspectLog(path=opened.path, reason="it is not a JSON object in { }")
        for name in text.names():
            if name == "samples" and text.peek() == "[":
                for number, value in enumerate(text.items(), 1):
                    at = f"/samples/{number - 1}"
                    if isinstance(value, dict):
                        yield RawRow(number, None, at, one_form(value), None, plain=False)
                    else:
                        yield Damage(number, None, f"{at} is not a JSON object in {{ }}")
            elif name == "reductions" and text.peek() == "[":
                log.reductions = list(text.items())
            else:
                log.header[name] = text.value()
    except JsonBroken as error:
        yield Damage(number + 1, None, error.reason)
    if not is_log(log.header):
        raise NotAnInspectLog(path=opened.path, reason="it has no eval with a task")


def header_of(opened: Opened) -> dict[str, Any] | None:
    """Returns what a `.json` file says before its samples, where it is a log; None for anything else."""
    text = Text(opened.chunks())
    found: dict[str, Any] = {}
    try:
        if text.peek() != "{":
            return None
        for name in text.names():
            if name == "samples":
                break
            found[name] = text.value()
            if len(found) > _MEMBERS:
                return None
    except JsonBroken:
        return found if is_log(found) else None
    return found if is_log(found) else None


_MEMBERS = 40
"""Members that a log has before its samples, at most; it has about fifteen."""
