"""`atk doctor` names what is wrong with a machine or a project, says what to do, and changes nothing."""

import json
import os
import subprocess
import sys

import pytest

from atk_mcp import inspector
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


PLANTED = {
    "others can read": (_open_permissions, "warning", "permissions", "chmod"),
    "a killed call": (_killed_call, "warning", "leftovers", "atk recover"),
    "a merge": (_merge, "problem", "worktree", "Put that right"),
    "damage": (_damage, "problem", "store", "atk verify"),
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
        "import os, sys\n"
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
