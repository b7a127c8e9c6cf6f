"""Drives the checkpoint through one hostile repository; tells its answers and what it should not have touched."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from storage.checkpoints import (
    Change,
    build_tree,
    commit_tree,
    draft_changes,
    hold,
    inverse,
    publish,
    require_unlocked,
    rewrite,
)
from storage.errors import AtkError
from storage.git import Git
from storage.worktree import Head, Surroundings, ready, same_head, surroundings
from tests.support.gitcases import contents, further, layouts, repositories, states
from tests.support.gitcases.builder import CASES, GIT, Builder, Case

MODULES = (contents, repositories, states, further, layouts)
"""Importing them enters their cases into `CASES`, which is given on here."""

SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.safecrlf=false", "safe.directory=*")
QUIET = tuple(word for setting in SETTINGS for word in ("-c", setting))

Tree = dict[bytes, tuple[object, ...]]

__all__ = ["CASES", "Case", "Run", "changed", "content", "drive"]


@dataclass
class Run:
    """What each step answered, and each thing that was touched and should not have been."""

    answers: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    detail: str = ""


def content(folder: str) -> Tree:
    """Returns all under a folder but Git's objects, logs and ATK's own refs and store: files by bytes and mode."""
    base = os.fsencode(folder)
    out: Tree = {}
    for parent, folders, files in os.walk(base):
        for name in folders + files:
            full = os.path.join(parent, name)
            path = os.path.relpath(full, base)
            if _ours(path):
                continue
            found = os.lstat(full)
            if stat.S_ISREG(found.st_mode):
                with open(full, "rb") as file:
                    out[path] = ("file", stat.S_IMODE(found.st_mode), hashlib.sha256(file.read()).hexdigest())
            elif stat.S_ISLNK(found.st_mode):
                out[path] = ("link", os.readlink(full))
            else:
                out[path] = ("other", stat.S_IFMT(found.st_mode))
    return out


def _ours(path: bytes) -> bool:
    in_git = b".git/" in path and any(x in path for x in (b"objects", b"/logs", b"refs/atk", b"reftable/"))
    return b"/.atk" in b"/" + path or in_git


def changed(one: Tree, other: Tree) -> list[bytes]:
    return sorted(x for x in one.keys() | other.keys() if one.get(x) != other.get(x))


def edit(project: str) -> None:
    """Does what a candidate does: edits, adds, deletes a file and makes one executable."""

    def path(name: str) -> str:
        return os.path.join(project, name)

    if os.path.isfile(path("prompt.md")) and not os.path.islink(path("prompt.md")):
        with open(path("prompt.md"), "a") as file:
            file.write("Candidate line.\n")
    os.makedirs(path("skills"), exist_ok=True)
    with open(path("skills/new.md"), "a") as file:
        file.write("# new skill\n")
    if os.path.isfile(path("data/old.txt")) and not os.path.islink(path("data")):
        os.unlink(path("data/old.txt"))
    if os.path.exists(path("agent.py")):
        os.chmod(path("agent.py"), 0o755)


@dataclass
class _Driver:
    """One pass over one case, which ends with `reject` or `keep`."""

    case: Case
    end: str
    folder: str
    project: str
    run: Run = field(default_factory=Run)

    def __post_init__(self) -> None:
        self.git = Git(self.project)
        self.scratch = os.path.join(self.project, ".atk", "tmp")

    def answer(self, step: str, do: Callable[[], str | None]) -> bool:
        """Does a step, notes its answer, and checks that a refusal left everything as it was."""
        before = content(self.folder)
        try:
            self.run.answers[step] = do() or "ok"
        except AtkError as refusal:
            self.run.answers[step] = refusal.code
            self.run.detail = str(refusal)
        good = self.run.answers[step] == "ok"
        if (step in {"freeze", "seal"} or not good) and (touched := changed(before, content(self.folder))):
            self.run.problems.append(f"{step} changed {touched[:3]}")
        return good

    def shell(self, after: str) -> None:
        mid = self.case.mid
        if mid and mid.after == after and mid.shell != "NOEDIT":
            env = Builder(self.folder).env()
            subprocess.run(["/bin/sh", "-c", mid.shell], cwd=self.project, env=env, check=True, timeout=60)

    def freeze(self) -> str | None:
        self.head: Head = ready(self.git)
        self.before: Surroundings = surroundings(self.git, ())
        return "dirty" if self.before.dirty else None

    def seal(self) -> str | None:
        os.makedirs(self.scratch, 0o700, exist_ok=True)
        same_head(self.git, self.head)
        self.changes: tuple[Change, ...] = draft_changes(self.git, self.head.commit, self.before, self.scratch)
        if not self.changes:
            return "empty"
        tree = build_tree(self.git, self.head.commit, self.changes, self.scratch)
        self.commit = commit_tree(self.git, tree, [self.head.commit], "Candidate c1\n", 1_700_000_000)
        hold(self.git, "refs/atk/candidates/c1", self.commit)
        hold(self.git, "refs/atk/candidates/c1", self.commit)
        return None

    def reject(self) -> None:
        for _ in range(2):  # it is idempotent
            rewrite(self.git, inverse(self.changes), self.scratch, self.before.folders, head=self.head)

    def keep(self) -> None:
        require_unlocked(self.git, self.head)
        for _ in range(2):
            publish(self.git, self.head, self.commit, self.changes, self.began, self.scratch)

    def go(self) -> Run:
        unedited = bool(self.case.mid and self.case.mid.shell == "NOEDIT")
        if not self.answer("freeze", self.freeze):
            return self.run
        base = content(self.folder)
        self.shell("freeze")
        if not unedited:
            edit(self.project)
        edited = content(self.folder)
        if not self.answer("seal", self.seal):
            return self.run
        self.shell("seal")
        meant = content(self.folder)
        self.began = time.time_ns()
        if self.answer(self.end, self.reject if self.end == "reject" else self.keep):
            now = content(self.folder)
            if self.end == "reject":
                self.check_rejected(base, edited, meant, now)
            else:
                self.check_kept(meant, now)
        return self.run

    def check_rejected(self, base: Tree, edited: Tree, meant: Tree, now: Tree) -> None:
        want = {**base, **{x: meant[x] for x in changed(edited, meant) if x in meant}}
        if self.case.name == "filemode_false":
            want[b"repo/agent.py"] = now[b"repo/agent.py"]  # Git is told to ignore modes here
        if wrong := changed(want, now):
            self.run.problems.append(f"after reject differs {wrong[:4]}")

    def check_kept(self, meant: Tree, now: Tree) -> None:
        status = [GIT, *QUIET, "status", "--porcelain", "-uno", "--ignore-submodules=none"]
        env = Builder(self.folder).env()
        said = subprocess.run(status, cwd=self.project, env=env, capture_output=True, check=True).stdout.decode()
        want = {"monorepo_dirty_sibling": " M ../other/theirs.txt", "staged_after_seal": "A  staged.txt"}
        if said.rstrip("\n") not in {want.get(self.case.name, ""), want.get(self.case.name, "").replace("../", "")}:
            self.run.problems.append(f"status after keep: {said[:80]}")
        if touched := [x for x in changed(meant, now) if b".git" not in x]:
            self.run.problems.append(f"keep changed {touched[:3]}")


def drive(case: Case, end: str, folder: str) -> Run:
    """Builds a case in `folder`, takes it to `end`, and returns the answers and problems."""
    project = case.build(folder)
    ran = ("HOOK-", "-RAN", "RAN-", "pwned")

    def marks() -> set[str]:
        return {os.path.join(d, x) for d, _, files in os.walk(folder) for x in files if any(y in x for y in ran)}

    built = marks()
    for mark in built:
        if not mark.endswith("id`.txt"):  # the name of a file of the user's, and no mark
            os.unlink(mark)
    driver = _Driver(case, end, folder, project)
    kept = marks()
    try:
        run = driver.go()
    finally:
        driver.git.close()
    if foreign := marks() - kept:
        run.problems.append(f"code ran: {foreign}")
    wanted = {"freeze": case.freeze, "seal": case.seal, end: getattr(case, end)}
    for step, answer in run.answers.items():
        if answer != wanted[step]:
            run.problems.append(f"{step}: expected {wanted[step]}, got {answer} ({run.detail})")
    return run
