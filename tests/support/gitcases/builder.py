"""Builds hostile Git repositories and says what each step of a checkpoint must answer there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

GIT = os.environ.get("CASE_GIT", "git")
"""The git that builds and checks the cases; the one under test may be another."""

ELSEWHERE = "elsewhere"
"""A folder in the Git folder that is not where refs usually lie."""


@dataclass(frozen=True)
class Meanwhile:
    """What the user does after a step: a shell command in the project folder, `NOEDIT`, or variables for `env`."""

    after: str
    shell: str


class Builder:
    """A small builder: `g` runs git, `w` writes a file, `base` makes the ordinary repository in `r` below `d`."""

    def __init__(self, folder: str) -> None:
        self.d = folder
        self.r = os.path.join(folder, "repo")

    def env(self) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        names = {f"GIT_{x}_NAME": "User" for x in ("AUTHOR", "COMMITTER")}
        mails = {f"GIT_{x}_EMAIL": "user@example.org" for x in ("AUTHOR", "COMMITTER")}
        dates = {f"GIT_{x}_DATE": "2025-01-01T00:00:00Z" for x in ("AUTHOR", "COMMITTER")}
        alone = {"HOME": self.d, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return {**clean, **names, **mails, **dates, **alone, "GIT_TERMINAL_PROMPT": "0"}

    def g(self, *arguments: str, cwd: str | None = None, ok: bool = True, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [GIT, *arguments],
            cwd=cwd or self.r,
            env={**self.env(), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        said = done.stdout.decode(errors="replace").strip()
        if ok and done.returncode:
            raise RuntimeError(f"git {arguments}: {said}")
        return said

    def w(self, path: str, data: bytes | str = b"x\n", mode: int | None = None, root: str | None = None) -> str:
        full = os.path.join(root or self.r, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        if mode is not None:
            os.chmod(full, mode)
        return full

    def files(self, root: str | None = None) -> None:
        self.w("agent.py", "import sys\nprint('answer:', sys.argv[1:])\n", root=root)
        self.w("prompt.md", "You are helpful.\nAnswer briefly.\n", root=root)
        self.w("data/old.txt", "old\n", root=root)
        self.w("data/cfg.json", '{"k": 1}\n', root=root)
        self.w("run.sh", '#!/bin/sh\nexec python3 agent.py "$@"\n', 0o755, root=root)

    def base(self, *init: str, commit: bool = True) -> Builder:
        os.makedirs(self.r, exist_ok=True)
        self.g("init", "-q", "-b", "main", *init)
        self.files()
        if commit:
            self.g("add", "-A")
            self.g("commit", "-qm", "base")
        return self

    def commit(self, message: str = "more") -> None:
        self.g("add", "-A")
        self.g("commit", "-qm", message, "--no-verify", "--no-gpg-sign")


@dataclass(frozen=True)
class Case:
    """One repository and what each step must answer: `ok`, or the code of the error that stops it.

    `dirty` and `empty` are no errors of the checkpoint's: the first means that the surroundings report the user's
    change, the second that the draft has no changes.
    """

    name: str
    fill: Callable[[Builder], object]
    why: str
    freeze: str = "ok"
    seal: str = "ok"
    reject: str = "ok"
    keep: str = "ok"
    mid: Meanwhile | None = None
    sub: str = "repo"
    needs: str = ""

    def build(self, folder: str) -> str:
        """Builds the repository below `folder` and returns the project's folder."""
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.fill(Builder(folder))
        return os.path.join(folder, self.sub)


CASES: dict[str, Case] = {}


def case(
    *,
    why: str,
    freeze: str = "ok",
    seal: str = "ok",
    reject: str = "ok",
    keep: str = "ok",
    mid: Meanwhile | None = None,
    sub: str = "repo",
    needs: str = "",
) -> Callable[[Callable[[Builder], object]], Callable[[Builder], object]]:
    """Enters a function that fills a repository into `CASES`, under its name."""

    def enter(fill: Callable[[Builder], object]) -> Callable[[Builder], object]:
        name = fill.__name__
        CASES[name] = Case(name, fill, why, freeze, seal, reject, keep, mid, sub, needs)
        return fill

    return enter


NEEDS = {
    "": "",
    "root": "a user who may give files away",
    "reftable": "Git 2.45 or newer, for reftables",
    "refs_elsewhere": "Git 2.54 or newer, for refs outside of the Git folder",
}
"""What a case may need, in words."""


def available(needs: str) -> bool:
    """Whether this machine can build what a case needs: a user who may give files away, or a git new enough."""
    if needs == "root":
        return os.geteuid() == 0
    return needs not in {"reftable", "refs_elsewhere"} or _made(needs)


@lru_cache
def _made(needs: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        builder = Builder(folder)
        os.makedirs(os.path.join(builder.r, ".git", ELSEWHERE))
        if needs == "reftable":
            return not builder.g("init", "--ref-format=reftable", ok=False).startswith(("error:", "usage:"))
        builder.g("init", env={"GIT_REFERENCE_BACKEND": f"files://{ELSEWHERE}"})
        return bool(builder.g("config", "--get", "extensions.refStorage", ok=False))
