"""The first list waits for nothing: it is answered while no SDK is loaded, before anything of a project is touched.

The server's own import of the SDK is held until the client has its list, so what had happened by then is known.
"""

import json
import os
import subprocess
import sys

import pytest

from atk_mcp import snapshot
from tests.atk_mcp.test_main import HELLO, ROOT
from tests.atk_mcp.test_stdio import MODERN

HELD = """
import json, os, sys

told, seen = int(sys.argv[1]), []
watched = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec", "fcntl.", "os.mkdir", "os.rename", "os.remove",
           "socket.", "open", "os.listdir", "os.scandir")

def watch(event, arguments):
    if event.startswith(watched):
        seen.append([event, [str(argument)[:300] for argument in arguments]])

class Hold:
    def find_spec(self, name, path=None, target=None):
        if name == "atk_mcp.server":
            sys.meta_path.remove(self)
            happened = list(seen)
            os.read(told, 1)  # until the client has its list
            os.write(2, json.dumps({"before": happened, "seen": seen, "modules": sorted(sys.modules)}).encode())
            os._exit(0)
        return None

sys.addaudithook(watch)
sys.meta_path.insert(0, Hold())
sys.argv = ["atk-mcp"]
from atk_mcp.__main__ import main
main([])
"""

HEAVY = {"mcp", "mcp_types", "pydantic", "anyio", "asyncio", "git", "operations", "storage", "dataclasses"}

ERAS = {
    "with a handshake": [("initialize", HELLO), ("tools/list", {})],
    "without one": [("server/discover", {"_meta": MODERN}), ("tools/list", {"_meta": MODERN})],
}


@pytest.mark.parametrize("era", ERAS)
def test_the_first_list_waits_for_no_sdk_no_git_no_lock_and_no_look_into_the_project(era, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".atk").mkdir()
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", HELD, str(reading)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ROOT},
        pass_fds=[reading],
        bufsize=0,
    )
    with process:
        for number, (method, params) in enumerate(ERAS[era]):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            answer = json.loads(process.stdout.readline())
        os.write(writing, b"x")
        told = json.loads(process.stderr.read())
    for descriptor in (reading, writing):
        os.close(descriptor)
    assert [tool["name"] for tool in answer["result"]["tools"]] == [tool["name"] for tool in snapshot.offer().tools]
    loaded = {name.partition(".")[0] for name in told["modules"]}
    assert not loaded & HEAVY
    assert [event for event, _ in told["seen"] if not event.startswith(("open", "os.listdir"))] == []
    assert [said for said in told["seen"] if str(tmp_path) in str(said)] == []
    opened = {said[0] for event, said in told["seen"] if event == "open"}
    assert snapshot.PATH in opened
    assert [path for path in opened if not (os.path.isabs(path) or path.isdigit())] == []
