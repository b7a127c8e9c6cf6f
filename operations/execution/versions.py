"""What really ran: versions and digests of components and a snapshot of the environment, before and after a batch."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from operations.execution.attending import Attending
from storage.schema.base import Digest, Value
from storage.schema.projects import Component, Project

VersionIssue = Literal["launch_error", "timeout", "nonzero_exit", "invalid_output", "expected_version_mismatch"]
VERSION = re.compile(r"[A-Za-z0-9._+:/@-]{1,128}")
"""What a version may look like: one token."""

_SNAPSHOT_SECONDS = 20.0
_SKIPPED = frozenset({".git", ".atk", "__pycache__"})
_SNAPSHOT = """\
import sys
sys.path[:] = [path for path in sys.path if path]  # a json.py of the target is not what is meant
import json, platform
from importlib.metadata import distributions
found = {}
for d in distributions():
    name = d.metadata["Name"]
    if name:
        found.setdefault(name.lower().replace("_", "-"), d.version)
print(json.dumps({"version": platform.python_version(), "implementation": platform.python_implementation(),
                  "executable": sys.executable, "packages": dict(sorted(found.items()))}))
"""
"""Runs on the target's own Python, 3.9 or newer, and needs neither pip nor a network."""


class Observed(Value):
    """One component as it was found."""

    component_id: str
    change_role: Literal["variable", "fixed"]
    version: str | None = None
    """What `version_command` printed; None where there is none or it failed."""
    expected_version: str | None = None
    issue: VersionIssue | None = None
    detail: str = ""
    """What was found instead, in words."""
    sha256: Digest | None = None
    """Of the component's file, or of the list of its folder's files."""
    missing: bool = False
    """Whether there is nothing at its `source_path`."""


class Observation(Value):
    """Everything that identifies what runs, at one moment."""

    components: tuple[Observed, ...]
    environment: dict[str, Any]
    """platform, variables (names only), and python: version, implementation, packages; or why that is not known."""


class VersionNotes(Value):
    """What two observations around a batch say of it."""

    drift: tuple[str, ...]
    """What changed while the batch ran, in sentences: it has no one identity, so it is partial at best."""
    problems: tuple[str, ...]
    """What was the same but wrong before and after: a gate calls such a batch insufficient."""


def observe(
    project: Project, *, cwd: str, root: str, environment: Mapping[str, str], attending: Attending | None = None
) -> Observation:
    """Returns what the project's components and environment are now.

    Args:
        project: Its configuration.
        cwd: Where the programs that ask start: the agent's working folder.
        root: Where the Revision's content is; a component's `source_path` is relative to it.
        environment: What those programs get; only the names of its variables are kept.
        attending: Runs the programs; one is started for the purpose unless given.

    Raises:
        AttendantLost: The process that runs the programs has died.
        OSError: It cannot be started, or a component's file cannot be read.
    """
    with contextlib.ExitStack() as stack:
        ours = attending or stack.enter_context(Attending())
        components = tuple(_component(c, ours, cwd, root, environment) for c in project.components)
        return Observation(
            components=components,
            environment={
                "platform": platform.platform(),
                "variables": sorted(environment),
                "python": _python(project, ours, cwd, environment),
            },
        )


def version_notes(before: Observation, after: Observation) -> VersionNotes:
    """Returns what changed between two observations and what was wrong in both. Pure.

    A candidate's change of a variable component is made before the batch, so that any change within it is drift.
    """
    drift: list[str] = []
    problems: list[str] = []
    later = {component.component_id: component for component in after.components}
    for first in before.components:
        second = later.get(first.component_id)
        if second is None:
            drift.append(f"The component {first.component_id} was not looked at after the batch.")
            continue
        drift += _drift(first, second)
        if first.issue is not None and first.issue == second.issue:
            problems.append(f"The version of {first.component_id} is not what it has to be: {first.detail}.")
        # A candidate may move or delete what is variable; the tree says so already.
        if first.missing and second.missing and first.change_role == "fixed":
            problems.append(f"There is nothing at the source_path of {first.component_id}.")
    for name in ("platform", "python"):
        if before.environment.get(name) != after.environment.get(name):
            drift.append(f"The environment's {name} changed while the batch ran.")
    return VersionNotes(drift=tuple(drift), problems=tuple(problems))


def _drift(first: Observed, second: Observed) -> Iterator[str]:
    name = first.component_id
    if first.version != second.version or first.issue != second.issue:
        shown = [c.version or f"unknown ({c.detail})" for c in (first, second)]
        yield f"The version of {name} changed while the batch ran: {shown[0]} before, {shown[1]} after."
    if (first.sha256, first.missing) != (second.sha256, second.missing):
        yield f"The content of {name} changed while the batch ran."


def _component(
    component: Component, attending: Attending, cwd: str, root: str, environment: Mapping[str, str]
) -> Observed:
    found: dict[str, Any] = {"component_id": component.component_id, "change_role": component.change_role}
    if component.version_command:
        found["expected_version"] = component.expected_version
        found.update(_version(component, attending, cwd, environment))
    if component.source_path is not None:
        sha256 = content_digest(os.path.join(root, component.source_path))
        found.update(sha256=sha256, missing=sha256 is None)
    return Observed(**found)


def _version(
    component: Component, attending: Attending, cwd: str, environment: Mapping[str, str]
) -> Mapping[str, str | None]:
    """Asks for a version, and once more when there is no answer: one lost answer is no other version."""
    answer = _asked(component, attending, cwd, environment)
    if answer.get("issue") in {"timeout", "nonzero_exit", "invalid_output"}:
        answer = _asked(component, attending, cwd, environment)
    return answer


def _asked(
    component: Component, attending: Attending, cwd: str, environment: Mapping[str, str]
) -> Mapping[str, str | None]:
    limit = component.version_timeout_seconds
    outcome = attending.run(
        component.version_command, cwd=cwd, environment=environment, timeout_seconds=limit, with_stderr=False
    )
    version = outcome.output.strip()
    if outcome.end == "not_started":
        return {"issue": "launch_error", "detail": f"version_command could not be started ({outcome.error})"}
    if outcome.end != "exited":
        return {"issue": "timeout", "detail": f"version_command did not end within {limit} s"}
    if outcome.exit_code != 0:
        return {"issue": "nonzero_exit", "detail": f"version_command ended with exit code {outcome.exit_code}"}
    if not VERSION.fullmatch(version):
        return {"issue": "invalid_output", "detail": "version_command printed something that is no version"}
    if component.expected_version not in {None, version}:
        problem = f"version_command printed {version}, expected is {component.expected_version}"
        return {"version": version, "issue": "expected_version_mismatch", "detail": problem}
    return {"version": version}


def target_python(project: Project) -> str | None:
    """Returns the Python of the target: the declared one, or the command's program where that is a Python."""
    if project.python:
        return project.python
    if project.adapter == "python":
        return sys.executable
    program = project.command[0] if project.command else ""
    return program if re.fullmatch(r"python[0-9.]*", os.path.basename(program)) else None


def _python(project: Project, attending: Attending, cwd: str, environment: Mapping[str, str]) -> dict[str, Any] | None:
    program = target_python(project)
    if program is None:
        return None
    # -I would hide what PYTHONPATH adds for the agent; -B leaves no caches in the target.
    argv: Sequence[str] = (program, "-B", "-c", _SNAPSHOT)
    outcome = attending.run(
        argv, cwd=cwd, environment=environment, timeout_seconds=_SNAPSHOT_SECONDS, with_stderr=False
    )
    whole = outcome.output.strip().splitlines()
    try:
        found = json.loads(whole[-1]) if outcome.succeeded and whole else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return {"executable": program, "unknown": outcome.error or f"it ended with {outcome.end}, {outcome.exit_code}"}
    return found


def content_digest(path: str) -> str | None:
    """Returns the SHA-256 of a file, or of the list of a folder's files with theirs; None where there is nothing.

    A link counts as its text and is not followed. A folder that this user may not list counts as such, not as an empty
    one. Git's and ATK's own folders and Python's caches are left out.

    Raises:
        OSError: A file cannot be read.
    """
    try:
        about = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISDIR(about.st_mode):
        return _entry(path, about)
    whole = hashlib.sha256()
    unlisted: list[str] = []
    for parent, folders, names in os.walk(path, onerror=lambda trouble: unlisted.append(str(trouble.filename))):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and name not in links)
        for name in sorted([*names, *links]):
            below = os.path.join(parent, name)
            entry = _entry(below, os.lstat(below))
            whole.update(json.dumps([os.path.relpath(below, path), entry]).encode("ascii") + b"\n")
    for below in unlisted:
        whole.update(json.dumps([os.path.relpath(below, path), "unlisted"]).encode("ascii") + b"\n")
    return whole.hexdigest()


def _entry(path: str, about: os.stat_result) -> str:
    if stat.S_ISLNK(about.st_mode):
        return hashlib.sha256(b"link:" + os.fsencode(os.readlink(path))).hexdigest()
    if not stat.S_ISREG(about.st_mode):
        return hashlib.sha256(f"special:{stat.S_IFMT(about.st_mode)}".encode()).hexdigest()
    with open(path, "rb") as file:
        content = hashlib.file_digest(file, "sha256")
    if about.st_mode & 0o100:
        content.update(b"\0executable")
    return content.hexdigest()
