"""Isolated replay: whether a target allows it, what of the user's is not there, and what a run takes with it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from operations.tuning import lifecycle
from operations.tuning.identity import declared_inputs
from operations.tuning.running import preparation_of
from storage.checkpoints import Change, Isolated, choose_place, entries, put_apart, raw_bytes, user_copies
from storage.git import Git
from storage.schema.candidates import Candidate
from storage.schema.projects import Project
from storage.schema.rounds import Plan, Revision, Round
from storage.worktree import Surroundings, encode_path, input_fingerprints, project_path, shown_path

SHOWN = 8
"""How many of the user's files an answer names."""

_FOUND_APART = (
    "Isolated runs find what is committed and the files that the configuration names (source_path of components, "
    "arguments of the command). Other files are not there, whether Git ignores them or not: .env, virtual "
    "environments, caches. Programs may be named by their absolute path."
)


@dataclass(frozen=True)
class Apart:
    """A Revision that is to run in a folder of its own, and the bytes that its files get there."""

    isolated: Isolated
    raw: dict[tuple[str, str], str]
    around: Surroundings

    def put(self, git: Git, *, store: str, scratch: str) -> None:
        """Makes the folder; see `storage.checkpoints.put_apart`."""
        put_apart(git, self.isolated, self.raw, self.around, store=store, scratch=scratch)


def exact_bytes(git: Git, value: Round, candidates: Iterable[Candidate]) -> dict[tuple[str, str], str]:
    """Returns the exact bytes that a Round's files have on the user's disk, where Git's conversions make others."""
    around = Surroundings.model_validate(value.surroundings)
    sealed = [Change.model_validate(change) for c in candidates if c.round_id == value.id for change in c.changes]
    return raw_bytes(git, value.baseline_commit, around, sealed)


def apart(  # noqa: PLR0913 - a Revision of a Round, for one batch of a project
    git: Git,
    value: Round,
    project: Project,
    revision: Revision,
    candidates: Collection[Candidate],
    *,
    batch_id: str,
    ours: Collection[str],
) -> Apart:
    """Returns how `revision` runs in a folder of its own. The user's worktree is read for declared inputs only.

    Args:
        git: At the user's project.
        value: The Round.
        project: Its configuration.
        revision: What is to run.
        candidates: All of the project's.
        batch_id: Of the run.
        ours: The repository paths that the Round's own changes touch: a commit holds them.

    Raises:
        SurroundingsChanged: Declared inputs of the user's are not as the Round froze them.
        NoPlaceOutside: There is no folder outside the user's.
    """
    around = Surroundings.model_validate(value.surroundings)
    inputs = declared_inputs(project)
    now = input_fingerprints(git, inputs)
    tracked = {encode_path(path) for path, _ in entries(git, value.baseline_commit)}
    wanted = {path: mark for path, mark in user_copies(around, tracked, ours).items() if path in now}
    moved = [path for path, mark in wanted.items() if now[path] != mark]
    moved += [path for path in user_copies(around, tracked, ours) if path not in now]
    if moved:
        found = {shown_path(git, p): "changed" if now.get(p, "absent") != "absent" else "gone" for p in moved}
        raise lifecycle.SurroundingsChanged(round_id=value.id, paths=sorted(found), how=lifecycle.described(found))
    isolated = Isolated(
        folder=choose_place(git, project.id, batch_id),
        commit=revision.commit,
        copies=wanted,
        inputs=tuple(inputs),
        prefix=encode_path(git.prefix),
    )
    return Apart(isolated, exact_bytes(git, value, candidates), around)


def unfit(git: Git, value: Round, project: Project, plan: Plan) -> str | None:
    """Returns why a target does not allow isolated replay, as the rest of a sentence; None where it does.

    What names the user's folder would run the user's files there, and not the Revision's.
    """
    around = Surroundings.model_validate(value.surroundings)
    tracked = {encode_path(path) for path, _ in entries(git, value.baseline_commit)}
    there = {p for path in {*tracked, *user_copies(around, tracked, ())} if (p := project_path(git, path)) is not None}
    return next(_obstacles(git.root, project, plan, there), None)


def left_out(git: Git, value: Round) -> list[str]:
    """Returns the user's uncommitted files, as the project sees them, that an isolated run does not find."""
    around = Surroundings.model_validate(value.surroundings)
    return sorted(shown_path(git, path) for path in {*around.dirty, *around.untracked} - set(around.inputs))


def cautions(git: Git, value: Round) -> list[str]:
    """Returns what a person has to know before isolated replay is frozen, in sentences."""
    absent = left_out(git, value)
    said = [_FOUND_APART]
    if absent:
        more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
        said.append(
            f"Your uncommitted {', '.join(absent[:SHOWN])}{more} will be absent there. If the agent needs one, name it "
            "as source_path of a component (initialize_project with revise: true) and create the Round again."
        )
    return said


def _obstacles(root: str, project: Project, plan: Plan, there: Collection[str]) -> Iterator[str]:
    folder = os.path.normpath(project.working_directory)
    if os.path.isabs(folder) or folder.startswith(".."):
        yield f"runs in a folder of its own, but working_directory is {folder}; give it relative to the project"
    elif folder != "." and not any(path.startswith(folder + "/") for path in there):
        yield f"finds only committed and declared files, and none of them is in working_directory ({folder})"
    preparation = preparation_of(plan, project)
    programs = [*project.command[:1], *([project.python] if project.python else [])]
    programs += [argv[0] for argv in (preparation.argv, preparation.service, preparation.probe) if argv]
    for program in programs:
        at = os.path.normpath(os.path.join(root, folder, program))
        inside = os.path.relpath(at, root) if at.startswith(root + os.sep) else None
        if "/" not in program or "{" in program or inside is None:
            continue
        if os.path.isabs(program) and inside in there:
            yield f"has to run the Revision's {inside}, but it is named by its place in your folder ({program})"
        if not os.path.isabs(program) and inside not in there:
            yield (
                f"finds only committed and declared files, and {program} is neither; name it by its absolute path "
                "where it is no part of the agent"
            )
    arguments = [*project.command[1:], *preparation.argv[1:], *preparation.service[1:], *preparation.probe[1:]]
    arguments += _texts(project.adapter_options)
    for argument in arguments:
        if argument == root or root + os.sep in argument:
            yield f"has to read the Revision's files, but the argument {argument} names your folder; give it relative"


def _texts(value: Any) -> list[str]:  # noqa: ANN401 - JSON
    if isinstance(value, Mapping):
        return [text for below in value.values() for text in _texts(below)]
    if isinstance(value, list | tuple):
        return [text for below in value for text in _texts(below)]
    return [value] if isinstance(value, str) else []
