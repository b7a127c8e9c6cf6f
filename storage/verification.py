"""Looks at every byte of a store and says which differ from what was recorded. It changes and heals nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from storage import probes, segments, views
from storage.files import StoreDamaged
from storage.founding import KEY
from storage.frames import Frame, canonical
from storage.journal import SEGMENT
from storage.masking import MASK
from storage.project import Project
from storage.projection import State
from storage.recovery import HOLDERS
from storage.transaction import Call


@dataclass(frozen=True)
class Finding:
    """Something that is not as it was recorded."""

    path: str
    """Relative to the store's folder."""
    problem: str
    """What is wrong with it, to follow the path in a sentence."""

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"


def journal(project: Project, wrong: list[Finding]) -> Iterator[Frame]:
    """Yields the frames of the journal that can be trusted, and adds what is wrong with it to `wrong`.

    Each frame has its length, its checksum and the digest of the one before, over all segments; the first that does
    not hold ends the reading, since nothing after it can be trusted. One segment is held at a time.
    """
    before: str | None = None
    empty = True
    try:
        for segment in segments.segments(project.store):
            said = segment.frames[0].body.get("segment_before") if segment.frames else before
            if said != before:
                wrong.append(Finding(segment.path, f"says that the segment before has SHA-256 {said}, not {before}"))
                return
            empty = empty and not segment.frames
            yield from segment.frames
            if segment.tail.state != "clean":
                wrong.append(_of_tail(segment))
                return
            before = segment.sha256
    except StoreDamaged as error:
        wrong.append(Finding(os.path.relpath(error.path, project.store.path), error.reason))
        return
    if empty:
        wrong.append(Finding(SEGMENT, "is empty"))


def _of_tail(segment: segments.Segment) -> Finding:
    torn = segment.tail.state == "torn"
    what = "an interrupted append, which the next change cuts off" if torn else segment.tail.reason
    return Finding(segment.path, f"has damage at byte {segment.tail.offset}: {what}")


def recorded_files(project: Project, state: State) -> Iterator[Finding]:
    """Yields each recorded file that is missing or differs, and each that lies there and no record names."""
    for path, stored in sorted(state.files.items()):
        try:
            found = project.store.digest(path)
        except FileNotFoundError:
            yield Finding(path, "is missing")
        except StoreDamaged as error:
            yield Finding(path, error.reason)
        except OSError as error:
            yield Finding(path, f"cannot be read ({error.strerror})")
        else:
            if found != stored:
                said = f"{stored.sha256[:12]}… and {stored.size} bytes"
                yield Finding(path, f"has SHA-256 {found.sha256[:12]}… and {found.size} bytes; recorded was {said}")
    yield from _strangers(project, state)


def object_views(project: Project, state: State) -> Iterator[Finding]:
    """Yields each view that differs from what the journal says. The next change rebuilds it."""
    found = project.store.read(views.IGNORED, 16) if project.store.exists(views.IGNORED) else b""
    if found != views.IGNORES:
        yield Finding(views.IGNORED, "does not keep the store out of Git; the next change writes it anew")
    for kind, records in sorted(state.objects.items()):
        for object_id, record in records.items():
            path, right = views.place(record), views.render(record, state.written[kind, object_id])
            try:
                found = project.store.read(path, len(right) + 1)
            except FileNotFoundError:
                yield Finding(path, "is missing; it is a view, and the next change rebuilds it")
            except StoreDamaged as error:
                yield Finding(path, error.reason)
            else:
                if found != right:
                    yield Finding(path, "differs from the journal; it is a view, and the next change rebuilds it")


class KeyCheck:
    """Looks whether the key of masks is the one that the journal was written with.

    Of arguments in which something was masked the digest cannot be made again.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._made_with_another = self._made_with_it = False

    def look(self, body: Mapping[str, Any]) -> None:
        """Takes in one journal record."""
        if self._made_with_it or "arguments_digest" not in body:
            return
        if "left_out" not in body["arguments"] and not _masked(body["arguments"]):
            self._made_with_it = _call(body).digest(self._project.mask_key) == body["arguments_digest"]
            self._made_with_another = not self._made_with_it

    def findings(self) -> list[Finding]:
        """Returns the key when no digest of a call's arguments in the journal was made with it."""
        if self._made_with_it or not self._made_with_another:
            return []
        problem = "is another key than the one that the journal was written with: equal secrets get other masks"
        return [Finding(KEY, f"{problem}, and no repeated request_id is known again. Restore it from a copy")]


def _call(body: Mapping[str, Any]) -> Call:
    return Call(operation=body["op"], arguments=body["arguments"], request_id=None, at=body["at"])


def _masked(value: object) -> bool:
    return MASK.search(canonical(value).decode()) is not None


def _strangers(project: Project, state: State) -> Iterator[Finding]:
    """Yields what lies in a folder of immutable files and belongs to no record and no work in progress."""
    shown = {views.place(record) for records in state.objects.values() for record in records.values()}
    announced = {path for intent in state.intents.values() for path in intent.frame.get("files", {})}
    known = shown | announced | set(state.files)
    open_runs = tuple(f"evidence/{n}/" for n in (*state.runs, *(p.id for p in probes.open_probes(state))))
    for holder in filter(project.store.exists, HOLDERS):  # an older store lacks those that came later
        for path, regular in _walk(project.store.full(holder), holder):
            if not regular:
                yield Finding(path, "is a link or a special file, which ATK never makes")
            elif path not in known and not path.startswith((*open_runs, f"{holder}/.staging-")):
                yield Finding(path, "is named by no journal record")


def _walk(full: str, path: str) -> Iterator[tuple[str, bool]]:
    """Yields every file below a folder with its path in the store, and whether it is a regular one."""
    with os.scandir(full) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{path}/{entry.name}")
            else:
                yield f"{path}/{entry.name}", stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)
