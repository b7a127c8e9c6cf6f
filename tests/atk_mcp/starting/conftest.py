"""Folders as people have them, for tests of `atk init`."""

import os
import subprocess

import pytest

GIT = {
    "GIT_AUTHOR_NAME": "User", "GIT_AUTHOR_EMAIL": "user@example.org", "GIT_COMMITTER_NAME": "User",
    "GIT_COMMITTER_EMAIL": "user@example.org", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home without a login, so that a test does not depend on this machine's."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path):
    """Returns a function that makes a folder of files: text by path; with `git` all of them are committed."""

    def make(files, *, git=False, executable=()):
        root = tmp_path / "target"
        root.mkdir()
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        for path in executable:
            (root / path).chmod(0o755)
        if git:
            for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Start"]):
                subprocess.run(["git", *command], cwd=root, check=True, env=os.environ | GIT)
        return root

    return make
