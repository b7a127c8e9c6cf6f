"""Examines the machine and the project before something fails on them; this is `atk doctor`. It changes nothing.

Only the check of the disk writes: one small file in a folder of its own, which is taken away.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from operations import commits
from operations.wording import counted
from storage import refusing, segments
from storage.checkpoints import require_unlocked
from storage.errors import AtkError
from storage.files import FILE_MODE, FOLDER_MODE, sync_file
from storage.git import Git, GitLocked
from storage.owners import is_alive
from storage.project import ATK, Project, ProjectNotInitialized
from storage.projection import State
from storage.recovery import HOLDERS, WORK
from storage.schema.projects import Project as ProjectRecord
from storage.worktree import Head, ready

MOUNTS = "/proc/self/mountinfo"
LEAST_PYTHON = (3, 11)
LEAST_GIT = (2, 36)
LEAST_SPACE = 512 * 1024 * 1024
"""Bytes free on the project's disk below which a run may end half way."""
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "virtiofs", "vboxsf", "fuse.sshfs"}
"""File systems whose locks and flushes are those of another machine."""
_OTHERS = 0o077
"""Permissions of anybody but the owner."""

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    level: Level
    name: str
    said: str
    advice: str = ""
    """What to do; empty where all is well."""


def examine(root: str) -> list[Check]:
    """Returns what was found, the machine first, then the project, if there is one."""
    found = [*_python(), *_git(root), *_disk(root)]
    try:
        project = Project.open(root)
        state = project.state()
    except ProjectNotInitialized:
        if traces := commits.left_behind(root):
            return [*found, Check("warning", "project", f"{root} has no project", traces)]
        return [*found, Check("ok", "project", f"{root} has no project yet", "initialize_project makes one.")]
    except AtkError as error:
        return [*found, Check("problem", "project", str(error), "Follow the message; nothing was touched.")]
    except OSError as error:
        top = os.path.join(root, ATK)
        said = f"{top} cannot be read: {error.strerror} ({error.filename})"
        return [*found, *(_closed(top) or [Check("problem", "project", said, refusing.advice(error.errno or 0))])]
    found += [*_store(project, state), *_left(project, state), *_private(project)]
    for record in state.all(ProjectRecord):
        found += [*_worktree(project, state, record), *_target(project, record)]
    return found


def _python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < LEAST_PYTHON:
        yield Check("problem", "python", f"ATK runs on Python {version}", "Install ATK with Python 3.11 or newer.")
    else:
        yield Check("ok", "python", f"ATK runs on Python {version}")


def _git(root: str) -> Iterator[Check]:
    try:
        with Git(root) as git:
            said = git.line("version").removeprefix("git version ")
    except AtkError as error:
        yield Check("warning", "git", str(error), "Without Git a project is analysis-only.")
        return
    numbers = tuple(int(part) for part in said.split()[0].split(".")[:2] if part.isdecimal())
    if numbers < LEAST_GIT:
        yield Check("problem", "git", f"Git {said} is too old", "Install Git 2.36 or newer.")
    else:
        yield Check("ok", "git", f"Git {said}")


def _disk(root: str) -> Iterator[Check]:
    """Tries what the store relies on, where it lies: new files, locks, flushes of a file and of a folder, renames."""
    try:
        with tempfile.TemporaryDirectory(prefix=".atk-doctor-", dir=root) as folder:
            _try_disk(folder)
            _try_store(root, folder)
    except OSError as error:
        advice = "Move the project to a local disk that this user can write to."
        if error.errno == errno.EXDEV:
            said = "no file can be renamed from `.atk/` to the project: it lies on another file system, or is a mount"
            yield Check("problem", "disk", said, "Take that mount away, and keep the files of `.atk/` in the project.")
            return
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "Free some space."
        yield Check("problem", "disk", f"{root}: {error.strerror}", advice)
        return
    if (kind := _file_system(root)) in _REMOTE:
        said = f"{root} lies on {kind}: its locks and flushes are as good as the machine's behind it"
        yield Check(
            "warning", "disk", said, "Move the project to a local disk if others write there, or power may fail."
        )
    free = shutil.disk_usage(root).free
    if free < LEAST_SPACE:
        yield Check("warning", "disk", f"{free // 1024**2} MiB are free", "Free some space before a long run.")
    else:
        yield Check("ok", "disk", f"locks, flushes and renames work; {free // 1024**3} GiB are free")


def _file_system(root: str) -> str | None:
    """Returns the kind of file system at `root` as Linux names it; None where that cannot be told."""
    if not os.path.exists(MOUNTS):
        return None
    device = os.stat(root).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            if fields.split()[2] == wanted:  # proc(5): mount id, parent, major:minor, …, then the kind after a dash
                return rest.split()[0]
    return None


def _try_disk(folder: str) -> None:
    path = os.path.join(folder, "try")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(fd, b"try\n")
        sync_file(fd)
    finally:
        os.close(fd)
    os.rename(path, path + ".renamed")
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _try_store(root: str, folder: str) -> None:
    """Tries whether files can be renamed from the store to the project, without a file: Linux says so all the same."""
    try:
        os.rename(os.path.join(root, ATK, os.path.basename(folder)), os.path.join(folder, "none"))
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise  # whatever else is wrong with the store is found where it is looked at


def _store(project: Project, state: State) -> Iterator[Check]:
    if (damage := project.damage()) is not None:
        yield Check("problem", "store", str(damage), "`atk verify` names every byte; restore `.atk/` from a copy.")
        return
    number, segment = state.position.number, state.position.segment
    yield Check("ok", "store", f"the journal holds {number + 1} records in segment {segment}")
    if segments.due(project.store, state):
        yield Check("ok", "store", "the next change begins a new segment")
    if wrong := list(_wrong_files(project, state)):
        said = f"stored files are not as they were recorded ({len(wrong)}): {', '.join(wrong[:3])}"
        advice = "Put them back from a copy of `.atk/`. `atk verify` says what rests on them; nothing new can."
        yield Check("problem", "store", said, advice)


def _wrong_files(project: Project, state: State) -> Iterator[str]:
    """Yields what is wrong with files that are gone or of another size; `atk verify` reads every byte of all."""
    for path, recorded in state.files.items():
        try:
            size = os.lstat(project.store.full(path)).st_size
        except FileNotFoundError:
            yield f"{path} is missing"
        else:
            if size != recorded.size:
                yield f"{path} has {size} bytes, not {recorded.size}"


def _left(project: Project, state: State) -> Iterator[Check]:
    """Tells of work whose process is gone; the next change finishes or undoes it."""
    store = project.store
    open_work = [(i.owner, f"{i.operation} (record {i.number})") for i in state.intents.values()]
    open_work += [(run.owner, f"the run of {run.batch_id}") for run in state.runs.values()]
    for owner, what in open_work:
        if is_alive(store, owner):
            yield Check("ok", "work", f"{what} is under way")
        else:
            yield Check("warning", "work", f"{what} was interrupted", "`atk recover` finishes or undoes it.")
    staged = [f"{holder}/{name}" for holder in HOLDERS for name in store.names(holder) if name.startswith(".staging-")]
    dead = [path for path in staged if not is_alive(store, path.rpartition(".staging-")[2])]
    if dead:
        yield Check(
            "warning", "leftovers", f"{counted(len(dead), 'folder')} of killed calls", "`atk recover` takes them away."
        )
    orphans = [name for name in store.names(WORK) if name.startswith("batch-") and name not in state.runs]
    if orphans:
        yield Check(
            "warning", "leftovers", f"work of {counted(len(orphans), 'ended run')}", "`atk recover` takes it away."
        )


def _private(project: Project) -> Iterator[Check]:
    """Names what others on this machine could read: inputs and outputs lie in the store as they are."""
    top = project.store.path
    if (owner := os.stat(top).st_uid) != os.geteuid():
        said = f"{ATK} belongs to user {owner}, and this is user {os.geteuid()}"
        yield Check("warning", "permissions", said, "Work as one user: what the other makes, this one cannot change.")
    yield from _closed(top)
    wrong = [path for path in _entries(top) if stat.S_IMODE(os.lstat(path).st_mode) & _OTHERS]
    if wrong:
        shown = ", ".join(os.path.relpath(path, os.path.dirname(top)) for path in wrong[:3])
        advice = f"Run `chmod -R u=rwX,go= {ATK}` in the project's folder."
        yield Check("warning", "permissions", f"others can reach entries of it ({len(wrong)}): {shown}", advice)
    else:
        yield Check("ok", "permissions", f"folders are {FOLDER_MODE:04o} and files {FILE_MODE:04o} or less")


def _closed(top: str) -> list[Check]:
    """Names what this user cannot read: nothing that needs it can be done."""
    closed = []
    for path in _entries(top):
        wanted = os.R_OK | (os.X_OK if os.path.isdir(path) else 0)
        if not os.access(path, wanted, effective_ids=os.access in os.supports_effective_ids):
            closed.append(path)
    if not closed:
        return []
    shown = ", ".join(f"{os.path.relpath(p, os.path.dirname(top))} (user {os.lstat(p).st_uid}'s)" for p in closed[:3])
    said = f"user {os.geteuid()} cannot read entries of {ATK} ({len(closed)}): {shown}"
    advice = f"Work as the user who owns them; what is your own, `chmod -R u=rwX {ATK}` in the project's folder opens."
    return [Check("problem", "permissions", said, advice)]


def _entries(top: str) -> Iterator[str]:
    yield top
    for folder, names, files in os.walk(top):
        if os.path.relpath(folder, top) == WORK:  # agents write there as they like
            names.clear()
            continue
        yield from (path for name in (*names, *files) if not os.path.islink(path := os.path.join(folder, name)))


def _worktree(project: Project, state: State, record: ProjectRecord) -> Iterator[Check]:
    if record.analysis_only:
        return
    try:
        with project.git() as git:
            head = ready(git)
            yield Check("ok", "worktree", f"HEAD is {head.commit[:12]} on {head.branch or 'no branch'}")
            yield from _locks(git, head)
            yield from _commits(git, head, state)
    except AtkError as error:
        yield Check("problem", "worktree", str(error), "Put that right; nothing can be run or sealed until then.")


def _commits(git: Git, head: Head, state: State) -> Iterator[Check]:
    """Tells where repository and store are not of one time: either may have been put back, cleaned or copied alone."""
    if gone := commits.lost(git, state):
        shown = ", ".join(f"{revision.id} ({revision.commit[:12]})" for revision in gone[:3])
        said = f"commits of Revisions are gone from the repository ({len(gone)}): {shown}"
        advice = "Fetch `refs/atk/*` from a copy of the repository; without them those can be neither run nor kept."
        yield Check("warning", "worktree", said, advice)
    if (found := commits.ahead(git, head.commit, state)) is not None:
        said = (
            f"{found.commit[:12]} was made by {found.round_id} as record {found.record}, and the journal ends with "
            f"{state.position.number}"
        )
        advice = f"{ATK} is older than the branch: put its newest copy back, or abandon the Round; the commit stays."
        yield Check("warning", "worktree", said, advice)


def _locks(git: Git, head: Head) -> Iterator[Check]:
    try:
        require_unlocked(git, head)
    except GitLocked as error:
        yield Check("warning", "git", str(error), "No candidate can be kept while it stands.")


def _target(project: Project, record: ProjectRecord) -> Iterator[Check]:
    if record.analysis_only:
        return
    folder = os.path.join(project.root, record.working_directory)
    if not os.path.isdir(folder):
        yield Check("problem", "target", f"working_directory {record.working_directory} is no folder", _REVISE)
        return
    for what, program in (("command", next(iter(record.command), None)), ("python", record.python)):
        if program is None or "{" in program:
            continue
        found = shutil.which(os.path.join(folder, program) if os.sep in program else program)
        if found is None:
            yield Check("problem", "target", f"its {what} {program} cannot be started from here", _REVISE)
        else:
            yield Check("ok", "target", f"its {what} is {found}{_version(found)}")
    if record.env_file is not None and not os.path.isfile(os.path.join(project.root, record.env_file)):
        yield Check("problem", "target", f"env_file {record.env_file} is missing", "Put it back, or revise it.")
    unset = [name for name in record.environment if name not in os.environ and name not in record.env_file_names]
    if unset:
        advice = "Set them where the server starts, or put them into env_file."
        yield Check("warning", "target", f"declared variables are not set here: {', '.join(unset[:8])}", advice)


def _version(program: str) -> str:
    """Says the version of a Python that lies in a virtual environment, which its own file tells; it is not started."""
    settings = os.path.join(os.path.dirname(os.path.dirname(program)), "pyvenv.cfg")
    if not os.path.isfile(settings):
        return ""
    with open(settings, encoding="utf-8", errors="replace") as file:
        found = [line.partition("=")[2].strip() for line in file if line.split("=")[0].strip() in _VERSIONS]
    return f", Python {found[0]}" if found else ""


_VERSIONS = ("version", "version_info")
_REVISE = "Correct it, or call initialize_project with revise: true."
