"""Bit rot: every file of a store differs, one after the other, and is healed or named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

from atk_mcp import inspector
from operations.registry import all_operations
from tests.support.crashloop.loop import Row
from tests.support.crashloop.scenario import KEYS, PROJECT, Ladder
from tests.support.crashloop.tracer import Ran, in_child

STAGE = "completed"
_DISPOSABLE = ("lock",)
"""Files whose content says nothing; a lost one is made again."""


class Rot:
    """A finished Round whose store rots."""

    def __init__(self, folder: str, ladder: Ladder) -> None:
        self.folder = os.path.realpath(folder)
        self.root = os.path.join(self.folder, "target", PROJECT)
        self._base = os.path.join(self.folder, "base")
        all_operations()  # children find everything imported
        prepared = in_child(self.folder, self._at_home(lambda: self._prepare(ladder)))
        assert prepared.status == 0, prepared.stderr
        self.views = self._views()

    def _prepare(self, ladder: Ladder) -> int:
        target = ladder.copy(STAGE, self._base)
        target.call("inspect_or_recover_operation")
        return 0

    def _at_home(self, command: Any) -> Any:
        def run() -> int:
            os.environ["ATK_KEY_HOME"] = os.path.join(self.folder, KEYS)
            return int(command())

        return run

    def _views(self) -> frozenset[str]:
        """The files that can be made again: what no record names and the journal is not made of."""
        kept = ("journal/", "mask.key", *_DISPOSABLE)
        named = {path for path in self.files() if os.path.basename(path) in ("records.jsonl", "cases.jsonl")}
        found = {path for path in self.files() if path.endswith(".json") and not path.startswith(kept)}
        return frozenset(found - named - set(self._recorded())) | {".gitignore"}

    def _recorded(self) -> list[str]:
        """The files that a record of the journal names."""
        with open(os.path.join(self._base, ".atk/journal/000001.log"), encoding="utf-8") as file:
            bodies = [json.loads(line[line.index("{") :]) for line in file]
        return [path for body in bodies for path in body.get("files", {})]

    def files(self) -> list[str]:
        """Returns every file of the store, relative to it."""
        top = os.path.join(self._base, ".atk")
        found = [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
        return sorted(os.path.relpath(path, top) for path in found)

    def changes(self, path: str) -> Iterator[tuple[str, bytes | None]]:
        """Yields what may become of a file, in words and bytes; None: it is gone."""
        with open(os.path.join(self._base, ".atk", path), "rb") as file:
            data = file.read()
        yield "is gone", None
        if data:
            yield "is empty", b""
            yield "is cut to half", data[: len(data) // 2]
            for at in sorted({0, len(data) // 2, len(data) - 1}):
                yield f"differs at byte {at}", data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    def trials(self, paths: Iterable[str] | None = None, skip: Iterable[str] = ()) -> Iterator[Row]:
        """Lets each file rot in each way."""
        known = set(skip)
        for path in self.files() if paths is None else paths:
            for what, data in self.changes(path):
                if f"{path} {what}" not in known:
                    yield Row(
                        "completed_round", "rot", f"{path} {what}", self.kind(path), None, self._wrong(path, data)
                    )

    def kind(self, path: str) -> str:
        """Returns what a file of the store is: view, journal, large file or other."""
        if path in self.views:
            return "view"
        return "journal" if path.startswith("journal/") else "large file" if path in self._recorded() else "other"

    def _wrong(self, path: str, data: bytes | None) -> str:
        shutil.rmtree(os.path.join(self.folder, "target"), ignore_errors=True)
        shutil.copytree(self._base, self.root, symlinks=True)
        rotten = os.path.join(self.root, ".atk", path)
        if data is None:
            os.unlink(rotten)
        else:
            with open(rotten, "wb") as file:
                file.write(data)
        verified = self._atk("verify")
        if "Traceback" in verified.stderr:
            return f"verify: {verified.stderr[-600:]}"
        kind = self.kind(path)
        said = verified.stdout + verified.stderr
        if kind != "other" and (verified.status != 1 or path not in said):
            return f"verify does not name it ({verified.status}): {said[-300:]}"
        if kind == "other" and path not in _DISPOSABLE and verified.status == 0 and data is not None:
            return "verify does not name it"
        recovered = self._atk("recover")
        if "Traceback" in recovered.stderr or recovered.status not in (0, 1):
            return f"recover ({recovered.status}): {recovered.stderr[-600:]}"
        return {"view": self._not_healed, "journal": self._not_closed}.get(kind, self._not_left)(path, data)

    def _not_healed(self, path: str, data: bytes | None) -> str:
        del data
        return "" if self._bytes(path) == self._right(path) else "the view was not made again"

    def _not_left(self, path: str, data: bytes | None) -> str:
        """A large file is named and left: nothing pretends to heal it."""
        if path in _DISPOSABLE or self._bytes(path) == data:
            return ""
        return "it was written over"

    def _not_closed(self, path: str, data: bytes | None) -> str:
        """What cannot be trusted is not built on. Its last frame alone may have been a torn one, and is cut."""
        changed = self._atk("call", "store_knowledge", "--request", _LESSON)
        if "Traceback" in changed.stderr:
            return f"a change: {changed.stderr[-600:]}"
        if changed.status == 0:
            return "the project can be changed although its journal is damaged"
        left = self._bytes(path)
        whole = left == data if left is None or data is None else data.startswith(left)
        return "" if whole else "the journal was written over"

    def _bytes(self, path: str) -> bytes | None:
        return _read(os.path.join(self.root, ".atk", path))

    def _right(self, path: str) -> bytes | None:
        return _read(os.path.join(self._base, ".atk", path))

    def _atk(self, *arguments: str) -> Ran:
        command = [*arguments, "--project", self.root]
        return in_child(self.folder, self._at_home(lambda: inspector.main(command)))


_LESSON = '{"knowledge": {"body": "a lesson", "applicability": "here"}}'


def _read(path: str) -> bytes | None:
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()
