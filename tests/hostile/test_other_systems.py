"""Without what only Linux has, every module is imported and a Round goes its way, and what cannot be told is said."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from storage.checkpoints import locks
from storage.files import sync_file
from tests.support.othersystem import PRELUDE

ROOT = Path(__file__).parents[2]

IMPORTS = """
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
"""

ROUND = """
from operations.execution import launch
launch._BOOT = open(sys.argv[2]).read() + launch._BOOT
from operations.verification import verify
from tests.operations.catalog.stages import LADDER, Staged
target = Staged(sys.argv[1], {})
for stage, build in LADDER.items():
    build(target)
    if stage == "kept":
        break
report = verify(target.project)
assert report.findings == [], report.findings
assert synced, "no flush reached the drive"
print(target.ids["kept_commit"])
"""


def program(text, *arguments):
    """Runs a program that takes itself to be on macOS."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PRELUDE + text, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)


def modules():
    for top in ("atk_mcp", "operations", "storage"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "target" not in parts and "templates" not in parts:  # the demo's agent is no module
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_module_is_imported_without_what_only_linux_has():
    names = list(modules())
    assert len(names) > 300
    done = program(IMPORTS, *names)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_a_round_with_runs_is_made_kept_and_verified_without_what_only_linux_has(tmp_path):
    prelude = tmp_path / "prelude.py"
    prelude.write_text(PRELUDE, encoding="utf-8")
    done = program(ROUND, str(tmp_path / "target"), str(prelude))
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.strip()) == 40


@pytest.fixture
def drive(monkeypatch):
    """A drive that is flushed by F_FULLFSYNC. Returns the calls that reached it; `errors` holds what it answers."""
    calls, errors = [], []

    def control(fd, command):
        calls.append((fd, command))
        if errors:
            raise OSError(errors.pop(), "no")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    return calls, errors


def test_a_file_is_flushed_to_the_drive_itself_where_there_is_a_call_for_that(drive, tmp_path, monkeypatch):
    calls, errors = drive
    fallbacks = []
    monkeypatch.setattr(os, "fsync", fallbacks.append)
    with open(tmp_path / "file", "wb") as file:
        sync_file(file.fileno())
        assert (calls, fallbacks) == ([(file.fileno(), 51)], [])
        errors.append(errno.ENOTSUP)
        sync_file(file.fileno())
        assert fallbacks == [file.fileno()]


def test_a_flush_that_the_drive_refuses_is_not_tried_again_in_a_weaker_way(drive, tmp_path):
    _, errors = drive
    errors.append(errno.EIO)
    with open(tmp_path / "file", "wb") as file, pytest.raises(OSError, match="no"):
        sync_file(file.fileno())


def test_where_nobody_can_tell_who_has_a_lock_open_it_is_not_removed(monkeypatch, tmp_path):
    path = tmp_path / "index.lock"
    path.touch()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Exception, match="perhaps open in a living process"):
        locks.remove_own_locks([str(path)], [b""], since_ns=0)
    assert path.exists()
