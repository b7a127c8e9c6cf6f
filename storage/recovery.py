"""What is done at every open: undo or finish what nobody works on any more, and take away what is nobody's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from storage import checkpoints, effects, probes, runs
from storage.errors import AtkError
from storage.files import Folder, StoreDamaged
from storage.journal import Journal
from storage.lock import Held
from storage.owners import FOLDER as OWNERS
from storage.owners import forget_dead, is_alive
from storage.projection import OpenIntent, State

if TYPE_CHECKING:
    from storage.project import Project

HOLDERS = ("datasets", "evidence", "assessments", "validations", "selections", "deals")
"""Folders in which operations stage what they are about to place."""

WORK = "work"
"""Where agents and scratch indexes live. It is not part of the store."""

IMPORTS = f"{WORK}/imports"
"""A folder for each import that is carried out, named like its owner."""

_ISSUED = re.compile(r"[a-z_]+-([1-9][0-9]{0,17})-[0-9a-z]{4}")
"""An id as a transaction issues it, with the number of the record that first names it."""


@dataclass(frozen=True)
class Unresolved:
    """An open intent whose target is in no known state. It stays open until a person has put that right."""

    number: int
    operation: str
    error: AtkError


def stays(path: str) -> str:
    """Returns the sentence on a folder of work that the system does not let us remove."""
    return (
        f"{path} could not be taken away whole: something in it belongs to another user, or is a mount. It takes up "
        "room and nothing else; remove it by hand."
    )


def recover(project: Project, state: State, held: Held) -> tuple[State, list[Unresolved], list[str]]:
    """Finishes or undoes what has no living owner.

    Returns the state after, what could not be resolved, and a sentence on each folder that could not be taken away.
    """
    unresolved: list[Unresolved] = []
    kept: list[str] = []
    for intent in list(state.intents.values()):
        if is_alive(project.store, intent.owner):
            continue
        try:
            state = _finish(project, intent, held)
        except AtkError as error:
            state = project.caught_up_state()
            if intent.number in state.intents:
                unresolved.append(Unresolved(intent.number, intent.operation, error))
    for run in list(state.runs.values()):
        if is_alive(project.store, run.owner):
            continue
        try:
            state = project.append(runs.sealed_body(project, state, run), held)
            project.forget(run.owner)
            kept += map(stays, runs.clear_work(project, run))
        except AtkError as error:
            unresolved.append(Unresolved(run.number, "run_evaluation", error))
    return _seal_probes(project, state, held, unresolved), unresolved, kept


def _seal_probes(project: Project, state: State, held: Held, unresolved: list[Unresolved]) -> State:
    for probe in probes.open_probes(state):
        if is_alive(project.store, probe.owner):
            continue
        try:
            state = project.append(probes.sealed_body(project, state, probe), held)
            project.forget(probe.owner)
        except AtkError as error:
            unresolved.append(Unresolved(state.written[probe.kind, probe.id], "diagnostic_probe", error))
    return state


def _finish(project: Project, intent: OpenIntent, held: Held) -> State:
    with project.git() as git, project.scratch(intent.owner) as scratch:
        body: Mapping[str, Any] = {"intent": intent.number, "op": intent.operation, "at": intent.at, "recovered": True}
        try:
            effects.make_it_so(git, intent.steps, since_ns=effects.ALL_OURS, scratch=scratch)
        except AtkError as error:
            if not effects.untouched(git, intent.steps, scratch):
                raise
            ours = effects.NONE_OURS if intent.frame.get("strangers_locks") else effects.ALL_OURS
            effects.take_back(git, intent.steps, since_ns=ours, scratch=scratch)
            state = project.append({**body, "kind": "undone", "reason": str(error)}, held)
        else:
            state = project.append({**body, "kind": "done"}, held)
    project.forget(intent.owner)
    return state


def give_up(project: Project, state: State, number: int, reason: str, held: Held) -> State | None:
    """Records an open intent as undone, or seals an open run, and leaves every file as it is.

    The way out when a target is in no known state and the person does not want either of the known ones back.
    Returns the state after, or None when nothing of that number is open, or its process still lives.
    """
    intent = state.intents.get(number)
    if intent is not None and not is_alive(project.store, intent.owner):
        body = {"kind": "undone", "intent": number, "op": intent.operation, "at": intent.at, "left_as_is": True}
        return project.append({**body, "reason": reason}, held)
    for run in state.runs.values():
        if run.number == number and not is_alive(project.store, run.owner):
            sealed = project.append(runs.sealed_body(project, state, run, restore=False), held)
            runs.clear_work(project, run)
            return sealed
    return None


def free_work(project: Project) -> None:
    """Takes away what stands where the folder for work in progress belongs: agents write there, and it is no truth."""
    try:
        project.store.names(WORK)
    except StoreDamaged:
        project.store.remove_tree(WORK)


def imports_at_work(store: Folder) -> list[str]:
    """Returns the names of the folders of imports. What stands where these folders belong is taken away."""
    try:
        return store.names(IMPORTS)
    except StoreDamaged:
        store.remove_tree(IMPORTS)
        return []


def nobodys(store: Folder, state: State) -> Iterator[str]:
    """Yields what belongs to no record and no living work: staged and placed folders, imports, work of no run."""
    announced = (path for intent in state.intents.values() for path in intent.frame.get("files", {}))
    named = {"/".join(path.split("/")[:2]) for path in (*state.files, *announced)}
    named |= {f"evidence/{batch_id}" for batch_id in state.objects.get("batch", {})}
    for holder in HOLDERS:
        for name in store.names(holder):
            staged = name.removeprefix(".staging-")
            alive = staged != name and is_alive(store, staged)
            if not alive and f"{holder}/{name}" not in named:
                yield f"{holder}/{name}"
    for nonce in imports_at_work(store):
        if not is_alive(store, nonce):
            yield f"{IMPORTS}/{nonce}"
    for name in store.names(WORK):
        owner = name.removeprefix("scratch-")
        if not (name in state.runs or f"{WORK}/{name}" == IMPORTS or (owner != name and is_alive(store, owner))):
            yield f"{WORK}/{name}"


def tidy(project: Project, state: State) -> list[str]:
    """Takes away staged folders, placed ones that no record names, work of no run, and owners of nothing.

    Returns a sentence on each folder of work that the system does not let go of.

    Raises:
        StoreDamaged: A placed folder is of a record that the journal does not have; all is left as it is.
    """
    store = project.store
    free_work(project)
    _require_whole(project, state, {holder: store.names(holder) for holder in HOLDERS})
    kept = []
    for path in list(nobodys(store, state)):
        if not path.startswith(f"{WORK}/"):
            store.remove_tree(path)
        elif not store.clear(path):
            kept.append(store.full(path))
    kept += _sweep_apart(project, state)
    busy = {intent.owner for intent in state.intents.values()} | {run.owner for run in state.runs.values()}
    for nonce in store.names(OWNERS):
        if nonce not in busy:
            forget_dead(store, nonce)
    return [stays(path) for path in kept]


def _sweep_apart(project: Project, state: State) -> list[str]:
    """Takes away the folders of isolated runs that are sealed: a crash may come between the two. Returns what stays."""
    kept = []
    apart = {run.details["isolated"]["folder"] for run in state.runs.values() if "isolated" in run.details}
    for project_id in state.objects.get("project", {}):
        kept += checkpoints.sweep_places(project.store.path, project_id, keep=apart)
    return kept


def _require_whole(project: Project, state: State, placed: Mapping[str, Sequence[str]]) -> None:
    """Tells a journal that lost its end from a crash, which leaves only a folder of the record that was to be next."""
    for holder, names in placed.items():
        for name in names:
            number = _ISSUED.fullmatch(name)
            if number and int(number[1]) > state.position.number + 1:
                reason = f"ends before record {number[1]}, which made {holder}/{name}"
                raise StoreDamaged(path=Journal(project.store).path, reason=reason)
