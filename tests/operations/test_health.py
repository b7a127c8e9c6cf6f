"""`atk doctor` names what is wrong with a machine or a project, says what to do, and changes nothing."""

import errno
import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from atk_mcp import inspector
from operations import health
from operations.health import examine
from tests.operations.catalog.stages import tree_of


def found(root):
    return {(check.level, check.name): check for check in examine(root)}


def test_sound_project_is_well_and_nothing_is_changed(at, capsys):
    target = at("initialized")
    before = tree_of(target.root)
    assert inspector.main(["doctor", "--project", target.root]) == 0
    assert "All is well." in capsys.readouterr().out
    assert tree_of(target.root) == before


def test_folder_without_a_project_is_examined_too(tmp_path):
    checks = found(str(tmp_path))
    assert checks["ok", "project"].advice
    assert ("ok", "disk") in checks
    assert os.listdir(tmp_path) == []


def _open_permissions(target):
    os.chmod(target.path(".atk/mask.key"), 0o644)


def _killed_call(target):
    os.makedirs(target.path(".atk/evidence/.staging-0123456789abcdef"))


def _merge(target):
    target.git("checkout", "-q", "-b", "other")
    target.git("commit", "-q", "--allow-empty", "-m", "other")
    target.write(".git/MERGE_HEAD", target.head + "\n")


def _damage(target):
    path = target.path(".atk/journal/000001.log")
    with open(path, "r+b") as file:
        file.seek(30)
        file.write(b"!")


def _lost_cases(target):
    os.remove(target.path(f".atk/datasets/{target.store_cases()}/cases.jsonl"))


def _cut_cases(target):
    os.truncate(target.path(f".atk/datasets/{target.store_cases()}/cases.jsonl"), 3)


def _stale_lock(target):
    target.write(".git/index.lock", b"")


PLANTED = {
    "a lock of Git": (_stale_lock, "warning", "git", "kept while it stands"),
    "others can read": (_open_permissions, "warning", "permissions", "chmod"),
    "a killed call": (_killed_call, "warning", "leftovers", "atk recover"),
    "a merge": (_merge, "problem", "worktree", "Put that right"),
    "damage": (_damage, "problem", "store", "atk verify"),
    "a stored file is gone": (_lost_cases, "problem", "store", "copy of `.atk/`"),
    "a stored file is cut": (_cut_cases, "problem", "store", "copy of `.atk/`"),
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=list(PLANTED))
def test_what_is_wrong_is_named_with_what_to_do(at, capsys, planted):
    plant, level, name, advice = planted
    target = at("initialized")
    plant(target)
    status = inspector.main(["doctor", "--project", target.root, "--json"])
    told = json.loads(capsys.readouterr().out)
    hits = [check for check in told["checks"] if (check["level"], check["name"]) == (level, name)]
    assert hits, told
    assert advice in hits[0]["advice"]
    assert told["fit"] is (level != "problem")
    assert status == (1 if level == "problem" else 0)


def test_command_that_is_gone_is_a_problem(at):
    target = at("initialized")
    record = next(iter(target.state.objects["project"].values()))
    folder = os.path.dirname(record.command[0])
    if not folder:  # it is found by PATH
        old, os.environ["PATH"] = os.environ["PATH"], "/nowhere"
        try:
            checks = examine(target.root)
        finally:
            os.environ["PATH"] = old
    else:
        os.rename(record.command[0], record.command[0] + ".gone")
        checks = examine(target.root)
    assert any(check.level == "problem" and check.name == "target" for check in checks)


def test_windows_is_refused_in_one_sentence_before_anything_is_loaded():
    program = (
        "import os, shutil, sys\n"  # Python's own modules have been loaded as they are on Windows
        "os.name = 'nt'\n"
        "for name in ('fcntl', 'pwd', 'grp', 'resource', 'termios'): sys.modules[name] = None\n"
        "from atk_mcp import inspector, __main__\n"
        "sys.exit(inspector.main(['status']) + __main__.main([]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert all("WSL" in line for line in lines)


def test_a_disk_of_another_machine_is_told(tmp_path, monkeypatch):
    device = os.stat(tmp_path).st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"21 1 {os.major(device)}:{os.minor(device)} / / rw shared:1 - nfs4 server:/home rw\n")
    monkeypatch.setattr(health, "MOUNTS", str(mounts))
    checks = found(str(tmp_path))
    assert "nfs4" in checks["warning", "disk"].said
    assert "local disk" in checks["warning", "disk"].advice


def test_where_nobody_tells_the_kind_of_a_disk_nothing_is_said_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(health, "MOUNTS", str(tmp_path / "none"))
    assert ("warning", "disk") not in found(str(tmp_path))


def test_a_store_of_another_user_is_told(at, monkeypatch):
    target = at("initialized")
    owner = os.stat(target.path(".atk")).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    (told,) = [check for check in examine(target.root) if (check.level, check.name) == ("warning", "permissions")]
    assert f"belongs to user {owner}" in told.said


def test_what_this_user_cannot_read_is_named_with_its_owner(at, monkeypatch):
    target = at("initialized")
    monkeypatch.setattr(os, "access", lambda path, _, **__: not path.endswith("000001.log"))

    told = found(target.root)["problem", "permissions"]

    assert f".atk/journal/000001.log (user {os.geteuid()}'s)" in told.said
    assert "chmod" in told.advice


def test_a_store_that_cannot_be_opened_is_a_problem_and_no_end_of_the_examination(at, monkeypatch):
    target = at("initialized")

    def refused(path, flags, *_, opened=os.open, **more):
        if path == "000001.log":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, flags, *_, **more)

    monkeypatch.setattr(os, "open", refused)

    told = found(target.root)["problem", "project"]

    assert told.said == f"{target.path('.atk')} cannot be read: Permission denied (000001.log)"


def test_the_version_of_the_targets_python_is_told_without_starting_it(at, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\ntouch started\n")
    python.chmod(0o755)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.4\n")
    target = at("initialized")
    target.initialize(command=[str(python), "agent.py"], revise=True)
    said = [check.said for check in examine(target.root) if check.name == "target"]
    assert f"its command is {python}, Python 3.12.4" in said
    assert not os.path.exists(target.path("started"))


def test_every_check_that_is_not_well_says_what_to_do(at):
    target = at("initialized")
    for plant in (_open_permissions, _killed_call, _stale_lock):
        plant(target)
    assert all(check.advice for check in examine(target.root) if check.level != "ok")


@pytest.mark.parametrize(
    ("version", "level"),
    [("2.35.8", "problem"), ("2.36.0", "ok"), ("2.39.5 (Apple Git-154)", "ok"), ("3.0.0.rc1", "ok")],
)
def test_a_git_that_is_too_old_is_told_with_what_would_do(tmp_path, monkeypatch, version, level):
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'git version {version}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    (told,) = [check for check in examine(str(tmp_path)) if check.name == "git"]
    assert (told.level, version in told.said, "Git 2.36" in told.advice) == (level, True, level == "problem")


def test_a_machine_without_git_is_told_what_works_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    told = found(str(tmp_path))["warning", "git"]
    assert "Git 2.36 or newer" in told.said
    assert "analysis-only" in told.advice


@pytest.mark.parametrize(
    ("call", "error", "advice"),
    [
        ("fcntl.flock", errno.ENOLCK, "local disk"),
        ("os.fsync", errno.EIO, "local disk"),
        ("os.fsync", errno.ENOSPC, "Free some space"),
    ],
)
def test_a_disk_that_does_not_lock_or_flush_is_a_problem(tmp_path, monkeypatch, call, error, advice):
    def refuse(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(call, refuse)
    told = found(str(tmp_path))["problem", "disk"]
    assert os.strerror(error) in told.said
    assert advice in told.advice
    assert os.listdir(tmp_path) == []


def test_a_disk_that_is_nearly_full_is_told_before_a_run_fails_on_it(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=7 << 20))
    told = found(str(tmp_path))["warning", "disk"]
    assert (told.said, told.advice) == ("7 MiB are free", "Free some space before a long run.")
