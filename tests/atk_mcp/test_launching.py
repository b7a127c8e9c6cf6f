"""The programs' start: what a Ctrl-C does before anything of ours could see to it."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from tests.faults.story import ROOT

CODE = """
import os, signal, sys
signal.signal(signal.SIGINT, {handler})  # what a shell says of it differs from the foreground to the background
from atk_mcp import launching

class Interrupting:
    def find_spec(self, name, *_):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = ["--version"]
launching.{program}()
"""


@pytest.mark.parametrize(("program", "module"), [("atk", "atk_mcp.inspector"), ("atk_mcp", "atk_mcp.__main__")])
def test_a_ctrl_c_while_a_program_loads_ends_it_without_a_stack(program, module):
    code = CODE.format(program=program, module=module, handler="signal.default_int_handler")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_where_ctrl_c_is_ignored_it_stays_so():
    code = CODE.format(program="atk", module="atk_mcp.inspector", handler="signal.SIG_IGN")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:4], done.stderr) == (0, "atk ", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device here is always full")
@pytest.mark.parametrize(
    ("module", "name", "given"),
    [
        ("atk_mcp", "atk-mcp", "--version"),
        ("atk_mcp", "atk-mcp", "--help"),
        ("atk_mcp.inspector", "atk", "--help"),
    ],
)
def test_what_a_program_says_of_itself_and_stdout_does_not_take_is_told_in_a_sentence(module, name, given):
    usual = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", module, given],
            env={**usual, "PYTHONPATH": ROOT}, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, f"{name}: stdout takes no more: {os.strerror(errno.ENOSPC)}.\n")
