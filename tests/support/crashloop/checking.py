"""What must hold after a crash and a recovery, wherever the crash was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from operations.verification import verify
from storage.files import Folder
from storage.frames import Tail, scan
from storage.projection import State
from tests.operations.catalog.stages import Staged
from tests.support.crashloop.powerloss import Tree, snapshot
from tests.support.crashloop.scenario import REQUEST_ID, Scenario
from tests.support.crashloop.shapes import differences, shape

OWN = (".atk", ".git")
HOLDERS = ("datasets", "evidence", "assessments", "validations", "selections", "deals")


@dataclass(frozen=True)
class Before:
    """The target as it was before the call. `objects` and `files` are None where there was no project yet."""

    worktree: Tree
    refs: frozenset[str]
    index: tuple[str, ...]
    objects: Any
    files: Any
    head: str
    """What `.git/HEAD` and the user's own settings say."""

    @classmethod
    def of(cls, target: Staged) -> Before:
        state = target.state if has_store(target) else None
        return cls(
            worktree=_worktree(target),
            refs=_refs(target),
            index=_index(target),
            objects=None if state is None else _objects(state),
            files=None if state is None else dict(state.files),
            head=_settings(target),
        )


def has_store(target: Staged) -> bool:
    """Whether the target is a project."""
    return os.path.isdir(target.path(".atk"))


def check(
    target: Staged,
    scenario: Scenario,
    before: Before,
    arguments: Mapping[str, Any],
    printed: str,
    *,
    wanted: Any = None,
) -> Any:
    """Asserts that the call was made or was not made, and that everything else is as before.

    `printed` is what the call had printed when it ended: a whole answer is a promise. `wanted` is what the store is
    to be like in the end, as this function returned it after a run without a fault.
    """
    acknowledged = _answer(printed) if not scenario.command else None
    if not has_store(target):
        assert before.objects is None, "the project is gone"
        assert acknowledged is None, "what was acknowledged is lost"
        _is_as_before(target, before)
    else:
        state = _store_is_whole(target)
        made = REQUEST_ID in state.requests if scenario.keyed else _objects(state) != before.objects
        if scenario.keyed:
            assert made or acknowledged is None, "what was acknowledged is lost"
        if not made:
            assert _objects(state) == before.objects, "objects were made by a call that was not"
            assert dict(state.files) == before.files
            _is_as_before(target, before)
    response = _called(target, scenario, arguments)
    if acknowledged is not None and scenario.keyed:
        assert {k: v for k, v in response.items() if k in acknowledged} == acknowledged, "answered differently"
    if scenario.keyed:
        again = _called(target, scenario, arguments)
        assert _facts(again) == _facts(response), "the same request_id gave two results"
    state = _store_is_whole(target)
    found = shape(state)
    if wanted is not None and not scenario.runs:
        assert found == wanted, "the store is not as after a run without a fault: " + differences(wanted, found)
    scenario.done(target, state, response)
    _store_is_whole(target)
    _is_the_users(target, scenario, before)
    return found


def _called(target: Staged, scenario: Scenario, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Makes the call again, as its caller would after a crash."""
    if scenario.again is not None:
        return dict(scenario.again(target, arguments))
    named = {"request_id": REQUEST_ID} if scenario.keyed else {}
    if scenario.refused:
        error = target.refusal(scenario.operation, **arguments, **named)
        assert error.code == scenario.refused, str(error)
        return {}
    patient = {"wait_seconds": 200} if scenario.waits else {}
    made = target.call(scenario.operation, **arguments, **named, **patient)
    return dict(made.model_dump(mode="json"))


def _store_is_whole(target: Staged) -> State:
    """The journal is clean, nothing is open, `atk verify` finds nothing, and nothing else lies about."""
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
        assert [name for name in store.names("work") if name != "imports"] == []
        assert store.names("work/imports") == []
        for holder in HOLDERS:
            named = {path.split("/")[1] for path in state.files if path.startswith(f"{holder}/")}
            named |= {batch_id for batch_id in state.objects.get("batch", {}) if holder == "evidence"}
            assert set(store.names(holder)) == named, f"{holder} holds what no record names"
    report = verify(project)
    assert (report.findings, report.open_work) == ([], [])
    target.git("fsck", "--full", "--strict", "--no-dangling")
    locks = [os.path.join(d, f) for d, _, files in os.walk(target.path(".git")) for f in files if f.endswith(".lock")]
    assert locks == [], "Git's locks were left"
    return state


def _is_as_before(target: Staged, before: Before) -> None:
    assert _worktree(target) == before.worktree, "a call that was not made changed the worktree"
    assert {r for r in _refs(target) if "refs/atk/" not in r} == {r for r in before.refs if "refs/atk/" not in r}
    assert _index(target) == before.index
    assert _settings(target) == before.head


def _is_the_users(target: Staged, scenario: Scenario, before: Before) -> None:
    """What the call had no business with is untouched."""
    found, wanted = _worktree(target), before.worktree
    different = {
        p for p in {*found, *wanted} if found.get(p) != wanted.get(p) and p.split("/")[0] not in scenario.writes
    }
    assert different == set(), f"files of the user's are not as before: {sorted(different)}"
    branch = ("refs/atk/", "refs/heads/main") if scenario.moves_branch else ("refs/atk/",)
    lost = {r for r in _refs(target) ^ before.refs if not r.split()[1].startswith(branch)}
    assert lost == set(), f"refs of the user's are not as before: {sorted(lost)}"
    if not scenario.moves_branch:
        assert _index(target) == before.index
    assert _settings(target) == before.head


def _worktree(target: Staged) -> Tree:
    found: Tree = {}
    for name in os.listdir(target.root):
        path = target.path(name)
        if name in OWN or (name.startswith(".atk.new-") and not has_store(target)):
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            found |= {f"{name}/{at}": entry for at, entry in snapshot(path).items()}
            found[name] = ("d", b"", os.lstat(path).st_mode & 0o7777)
        else:
            with open(path, "rb") as file:
                found[name] = ("f", file.read(), os.lstat(path).st_mode & 0o7777)
    return found


def _refs(target: Staged) -> frozenset[str]:
    return frozenset(target.git("for-each-ref", "--format=%(objectname) %(refname)").splitlines())


def _index(target: Staged) -> tuple[str, ...]:
    return tuple(target.git("ls-files", "-s", "-v", "-z").split("\0"))


def _settings(target: Staged) -> str:
    exclude = target.read(".git/info/exclude") if os.path.exists(target.path(".git/info/exclude")) else ""
    return target.read(".git/HEAD") + target.read(".git/config") + exclude


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


def check_edited(target: Staged, words: str) -> None:
    """Asserts that what the user wrote between crash and recovery is as they left it, and that no work is stuck."""
    assert target.read("prompt.txt") == words, "the user's words are gone"
    for number in (*target.state.intents, *(run.number for run in target.state.runs.values())):
        given = {"operation_id": number, "leave_as_is": True, "reason": "I want my words"}
        target.call("inspect_or_recover_operation", **given)
    assert target.read("prompt.txt") == words, "the user's words are gone"
    assert not target.state.intents
    assert not target.state.runs
    target.git("fsck", "--full", "--strict", "--no-dangling")
