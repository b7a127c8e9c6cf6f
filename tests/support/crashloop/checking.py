"""What must hold after a crash and a recovery, wherever the crash was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage import contents
from storage.files import Folder
from storage.frames import Tail, scan
from storage.projection import State
from tests.support.crashloop.powerloss import Tree, snapshot
from tests.support.crashloop.scenarios import REQUEST_ID, Scenario
from tests.support.projects import Target

OWN = (".atk", ".git")


@dataclass(frozen=True)
class Before:
    """The target as it was before the call."""

    worktree: Tree
    refs: frozenset[str]
    index: tuple[str, ...]
    objects: Any
    files: Any
    head: str
    """What `.git/HEAD` and the user's own settings say."""

    @classmethod
    def of(cls, target: Target) -> Before:
        state = target.state
        return cls(
            worktree=_worktree(target),
            refs=_refs(target),
            index=_index(target),
            objects=_objects(state),
            files=dict(state.files),
            head=_settings(target),
        )


class Existing(Target):
    """A target that is there already."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)


def check(root: str, scenario: Scenario, before: Before, arguments: Mapping[str, Any], printed: str) -> None:
    """Asserts that the call was made or was not made, and that everything else is as before.

    `printed` is what the call had printed when it ended: a whole answer is a promise.
    """
    target = Existing(root)
    state = _store_is_whole(target)
    made = REQUEST_ID in state.requests
    acknowledged = _answer(printed)
    assert made or acknowledged is None, "what was acknowledged is lost"
    if not made:
        assert _objects(state) == before.objects, "objects were made by a call that was not"
        assert dict(state.files) == before.files
        _is_as_before(target, before)
    response = target.call(scenario.operation, **arguments, request_id=REQUEST_ID).model_dump(mode="json")
    if acknowledged is not None:
        assert {k: v for k, v in response.items() if k in acknowledged} == acknowledged, "answered differently"
    again = target.call(scenario.operation, **arguments, request_id=REQUEST_ID).model_dump(mode="json")
    assert _facts(again) == _facts(response), "the same request_id gave two results"
    scenario.done(target, _store_is_whole(target), response)
    _is_the_users(target, scenario, before)


def _store_is_whole(target: Target) -> State:
    """The journal is clean, nothing is open, every file is what was recorded, and nothing else lies about."""
    project = target.project
    assert project.damage() is None
    state = project.state()
    assert not state.intents, "an effect is open"
    assert not state.runs, "a run is open"
    assert not project.unresolved
    with Folder(target.path(".atk")) as store:
        *_, tail = scan(store.read("journal/000001.log"))
        assert isinstance(tail, Tail)
        assert tail.state == "clean", tail.reason
        assert store.names("owners") == []
        assert store.names("work") == []
        for holder in ("datasets", "evidence", "assessments", "validations"):
            named = {path.split("/")[1] for path in state.files if path.startswith(f"{holder}/")}
            assert set(store.names(holder)) == named, f"{holder} holds what no record names"
    for path in state.files:
        contents.checked(project, state, path)
    target.git("fsck", "--full", "--strict", "--no-dangling")
    locks = [os.path.join(d, f) for d, _, files in os.walk(target.path(".git")) for f in files if f.endswith(".lock")]
    assert locks == [], "Git's locks were left"
    return state


def _is_as_before(target: Target, before: Before) -> None:
    assert _worktree(target) == before.worktree
    assert {r for r in _refs(target) if "refs/atk/" not in r} == {r for r in before.refs if "refs/atk/" not in r}
    assert _index(target) == before.index
    assert _settings(target) == before.head


def _is_the_users(target: Target, scenario: Scenario, before: Before) -> None:
    """What the call had no business with is untouched."""
    own = ("prompt.txt", "notes") if scenario.restores else ()
    found, wanted = _worktree(target), before.worktree
    different = {p for p in {*found, *wanted} if found.get(p) != wanted.get(p) and p.split("/")[0] not in own}
    assert different == set(), f"files of the user's are not as before: {sorted(different)}"
    branch = ("refs/atk/", "refs/heads/main") if scenario.moves_branch else ("refs/atk/",)
    lost = {r for r in _refs(target) ^ before.refs if not r.split()[1].startswith(branch)}
    assert lost == set(), f"refs of the user's are not as before: {sorted(lost)}"
    if not scenario.moves_branch:
        assert _index(target) == before.index
    assert _settings(target) == before.head


def _worktree(target: Target) -> Tree:
    found: Tree = {}
    for name in os.listdir(target.root):
        path = target.path(name)
        if name in OWN:
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            found |= {f"{name}/{at}": entry for at, entry in snapshot(path).items()}
            found[name] = ("d", b"", os.lstat(path).st_mode & 0o7777)
        else:
            with open(path, "rb") as file:
                found[name] = ("f", file.read(), os.lstat(path).st_mode & 0o7777)
    return found


def _refs(target: Target) -> frozenset[str]:
    return frozenset(target.git("for-each-ref", "--format=%(objectname) %(refname)").splitlines())


def _index(target: Target) -> tuple[str, ...]:
    return tuple(target.git("ls-files", "-s", "-v", "-z").split("\0"))


def _settings(target: Target) -> str:
    return target.read(".git/HEAD") + target.read(".git/config") + target.read(".git/info/exclude")


def _objects(state: State) -> Any:
    return {kind: {k: r.model_dump(mode="json") for k, r in made.items()} for kind, made in state.objects.items()}


def _facts(response: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in response.items() if k not in ("warnings", "next")}


def _answer(printed: str) -> dict[str, Any] | None:
    """The answer that was printed, if all of it was."""
    try:
        answer = json.loads(printed)
    except ValueError:
        return None
    assert isinstance(answer, dict)
    return {k: v for k, v in _facts(answer).items() if v not in (None, [], {})}
