"""Makes the demo's target: a Git repository with a ticket-triage agent and the Cases of a seed."""

from __future__ import annotations

import os
import shutil
import tempfile

from atk_mcp.demo.session import DemoStopped
from atk_mcp.demo.tickets import as_csv, make_tickets
from storage.git import Git

_SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "target")
_FILES = {"agent.py": "agent.py", "prompt.txt": "prompt.txt", "rules.txt": "rules.txt", "README.md": "README.md"}
_RENAMED = {"gitignore": ".gitignore"}
"""A file of this name would act on our own repository."""

_PERSON = {"NAME": "Demo user", "EMAIL": "demo@example.org"}


def make_target(path: str | None, seed: int) -> tuple[str, str]:
    """Returns the folder of a new target, and the file of its Cases relative to it. Everything is committed.

    Raises:
        DemoStopped: `path` is a folder with something in it, or cannot be a folder.
    """
    root = _empty_folder(path)
    for source, name in {**_FILES, **_RENAMED}.items():
        shutil.copyfile(os.path.join(_SOURCE, source), os.path.join(root, name))
    cases = f"tickets-{seed}.csv"
    with open(os.path.join(root, cases), "w", encoding="utf-8") as file:
        file.write(as_csv(make_tickets(seed)))
    with Git(root) as git:
        git.run("init", "-q", "--template=", "--initial-branch=main")
        for key, value in _PERSON.items():
            git.run("config", f"user.{key.lower()}", value)
        git.run("add", "--all")
        git.run("commit", "-q", "--no-gpg-sign", "-m", "The ticket-triage agent and its Cases")
    return root, cases


def _empty_folder(path: str | None) -> str:
    if path is None:
        return os.path.realpath(tempfile.mkdtemp(prefix="atk-demo-"))
    root = os.path.realpath(os.path.expanduser(path))
    try:
        os.makedirs(root, exist_ok=True)
        found = os.listdir(root)
    except OSError as error:
        raise DemoStopped(f"{path} cannot be the demo's folder: {error.strerror}. Give another --path.") from None
    if found:
        raise DemoStopped(f"{path} is not empty. Give --path a new or an empty folder, or leave it out.")
    return root
