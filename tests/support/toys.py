"""Small things to store and to change, for tests of the store itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from storage import effects
from storage.errors import AtkError
from storage.files import Folder
from storage.project import Project
from storage.schema.assessments import Judger
from storage.transaction import Pending
from tests.support.projects import call_of
from tests.support.rounds import DIGEST, Answered

SEGMENT = "journal/000001.log"


class NeitherState(AtkError):
    """A toy's file holds neither what was there nor what was to be there."""

    message = "The file holds something else."


def judger(name: str, version: str = "1") -> Judger:
    """Returns a small record."""
    return Judger(id=name, version=version, digest=DIGEST)


def put(project: Project, name: str, request_id: str | None = None, version: str = "1", **arguments: Any) -> Any:
    """Commits one record. Returns the answer."""
    with project.transaction(call_of("put", request_id, name=name, **arguments)) as tx:
        tx.put(judger(name, version))
        return tx.commit(Answered(f"put {name}"))


def place(project: Project, content: bytes, request_id: str | None = None) -> str:
    """Commits a folder with one file. Returns where the file lies."""
    with project.staging("datasets") as staging:
        staging.write("cases.jsonl", [content])
        with project.transaction(call_of("place", request_id, content=content.decode())) as tx:
            folder = f"datasets/{tx.new_id('dataset')}"
            tx.place(staging, folder)
            tx.commit(Answered(folder))
    return f"{folder}/cases.jsonl"


def announce(project: Project, path: str, before: str, after: str, request_id: str | None = None) -> Pending:
    """Announces that the file at `path` will hold `after` instead of `before`."""
    step = {"do": "toy", "path": path, "before": before, "after": after}
    with project.transaction(call_of("announce", request_id, path=path, after=after)) as tx:
        tx.require_free("toy")
        tx.put(judger(f"effect-{tx.number}", after))
        return tx.intend([step], Answered(f"{before} to {after}"), claims=["toy"])


def text(path: str) -> str:
    """Returns what a toy's file holds."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path: str, content: str) -> None:
    """Changes a toy's file, whole or not at all."""
    spare = f"{path}.new"
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, content.encode())
    finally:
        os.close(fd)
    os.rename(spare, path)


def use_toy_effects(monkeypatch: Any) -> None:
    """Lets effects change a toy's file, and nothing else."""

    def make_it_so(_: Any, steps: Sequence[Mapping[str, Any]], *, since_ns: int, scratch: str) -> None:
        assert since_ns >= 0
        assert os.path.isdir(scratch)
        for step in steps:
            found = text(step["path"])
            if found == step["before"]:
                write(step["path"], step["after"])
            elif found != step["after"]:
                raise NeitherState

    def untouched(_: Any, steps: Sequence[Mapping[str, Any]], scratch: str) -> bool:
        del scratch
        return all(text(step["path"]) != step["after"] for step in steps)

    monkeypatch.setattr(effects, "flush", lambda _: None)
    monkeypatch.setattr(effects, "strangers_locks", lambda _: False)
    monkeypatch.setattr(effects, "make_it_so", make_it_so)
    monkeypatch.setattr(effects, "untouched", untouched)


def journal(project: Project) -> str:
    """Returns the path of the journal."""
    return project.store.full(SEGMENT)


def read(path: str) -> bytes:
    """Returns a file's bytes."""
    with open(path, "rb") as file:
        return file.read()


def overwrite(path: str, data: bytes) -> None:
    """Puts other bytes where a file was, as rot or a person would."""
    with open(path, "wb") as file:
        file.write(data)


def reopened(project: Project) -> Project:
    """Returns the project as a new process would open it."""
    return Project(project.root, Folder(project.store.path))


def names(project: Project) -> list[str]:
    """Returns the ids of the small records."""
    return [record.id for record in project.state().all(Judger)]


def tree(root: str) -> dict[str, bytes | None]:
    """Returns every file under a folder with its bytes, and every folder with None."""
    found: dict[str, bytes | None] = {}
    for folder, folders, files in os.walk(root):
        found |= {os.path.relpath(os.path.join(folder, name), root): None for name in folders}
        for name in files:
            path = os.path.join(folder, name)
            linked = os.path.islink(path)
            found[os.path.relpath(path, root)] = os.readlink(path).encode() if linked else read(path)
    return found


def shown(project: Project, view: str) -> Any:
    """Returns what a view shows."""
    return json.loads(project.store.read(view))


@contextmanager
def failing_at(monkeypatch: Any, names_of_calls: Sequence[str], at: int, error: BaseException) -> Any:
    """Makes the `at`-th of the named calls of `os`, counted together, raise `error`. Yields the count so far."""
    count = [0]

    def failing(real: Any) -> Any:
        def call(*given: Any, **options: Any) -> Any:
            count[0] += 1
            if count[0] == at:
                raise error
            return real(*given, **options)

        return call

    with monkeypatch.context() as patch:
        for name in names_of_calls:
            patch.setattr(os, name, failing(getattr(os, name)))
        yield count
