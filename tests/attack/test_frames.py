"""Frames that were changed at random: a server over stdio answers each request once and ends in order."""

import json
import random
from collections import Counter

import pytest

from tests.atk_mcp.test_stdio import MODERN, call, initialize, started

ODD = [None, True, 0, -1, 1.5, 10**30, "", "\0", "\ud800", "é", "💥" * 50, [], {}, [1], {"a": None}, "x" * 3000]
NAMES = ["id", "_meta", "method", "params", "jsonrpc", "progressToken", "requestId", "arguments"]
FRAMES = 1_200


def changed(dice, value):
    """A value with some of its parts replaced, left out or added."""
    if dice.random() < 0.08:
        return dice.choice(ODD)
    if isinstance(value, dict):
        left = {name: changed(dice, part) for name, part in value.items() if dice.random() > 0.05}
        return left | ({dice.choice(NAMES): dice.choice(ODD)} if dice.random() < 0.1 else {})
    return value


def frame(dice, number, folder):
    """A line that is a request, mostly, or was one."""
    message = {"jsonrpc": "2.0"} | dice.choice([
        call(number, "get_status", project_path=folder),
        call(number, "wait_for_batch", project_path=folder, steps=2),
        {"id": number, "method": "tools/list", "params": {}},
        {"id": number, "method": "resources/read", "params": {"uri": f"atk://status?project_path={folder}"}},
        {"id": number, "method": "ping"},
        {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
        {"id": number, "result": {}},
    ])  # fmt: skip
    if "params" in message and dice.random() < 0.5:
        message["params"] |= {"_meta": MODERN | {"progressToken": number}}
    if dice.random() < 0.6:
        message = changed(dice, message)
    line = json.dumps(message, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")
    if dice.random() < 0.1:
        at = dice.randrange(len(line))
        line = line[:at] + bytes([dice.randrange(256)]).replace(b"\n", b"") + line[at + 1 :]
    return line + dice.choice([b"", b"", b"\r", b" "])


def asked(line):
    """The id of a line that is a request with a usable one, or None."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or not {"result", "error"}.isdisjoint(message):
        return None
    number = message.get("id")
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 < number < FRAMES else None


def numbered(line):
    """The id of an answer, or None of what is none."""
    message = json.loads(line)
    return None if "method" in message or not isinstance(message["id"], int) else message["id"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_among_frames_changed_at_random_each_request_is_answered_once(seed, tmp_path):
    dice = random.Random(seed)
    lines = [frame(dice, number, str(tmp_path)) for number in range(1, FRAMES)]
    owed = {number for line in lines if (number := asked(line)) is not None}
    with started("--greet", "--late") as server:
        assert initialize(server)["id"] == 0
        for line in lines:
            server.stdin.write(line + b"\n")
        answered = Counter()
        while not owed <= answered.keys():
            answered[numbered(server.stdout.readline())] += 1
        server.stdin.close()
        assert server.wait() == 0
        answered.update(numbered(line) for line in server.stdout)
        assert b"Traceback" not in server.stderr.read()
    assert {number: times for number, times in answered.items() if number in owed} == dict.fromkeys(owed, 1)
