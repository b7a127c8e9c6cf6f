"""`atk-mcp` as it is started: the real server, the real list, and its command line."""

import json
import os
import subprocess
import sys

import pytest

from atk_mcp import __main__ as command
from atk_mcp import snapshot

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def talk(cwd, *messages, options=()):
    """Starts the server, sends each message and returns the answers to those that have an id."""
    process = subprocess.Popen(
        [sys.executable, "-m", "atk_mcp", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": ROOT, "ATK_STRICT_RESULTS": "1"},
        bufsize=0,
    )
    with process:
        answers = []
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            if "id" in message:
                answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0
    return answers


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What a client is answered in an empty folder: hello, list, status, a call that a crash would look like."""
    call = {"method": "tools/call", "params": {"name": "get_status", "arguments": {}}}
    return talk(
        tmp_path_factory.mktemp("empty"),
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, **call},
        {"id": 4, "method": "tools/call", "params": {"name": "read_record", "arguments": {"identifier": "x"}}},
    )


def test_the_list_is_the_one_on_record(answers):
    assert answers[1]["result"]["tools"] == list(snapshot.offer().tools)


def test_the_status_of_an_empty_folder_says_how_to_begin(answers):
    result = answers[2]["result"]
    assert not result["isError"]
    assert result["structuredContent"]["next"][0]["tool"] == "initialize_project"


def test_a_wrong_argument_is_refused_in_words(answers):
    result = answers[3]["result"]
    assert result["isError"]
    assert result["content"][0]["text"].startswith("Error [invalid_arguments] read_record: ")


def test_a_reading_server_lists_reading_tools_only(tmp_path):
    hello, listed = talk(
        tmp_path,
        {"id": 1, "method": "initialize", "params": HELLO},
        {"id": 2, "method": "tools/list"},
        options=["--read-only"],
    )
    assert hello["result"]["serverInfo"]["name"] == "atk"
    tools = listed["result"]["tools"]
    assert tools
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools)


def test_a_server_of_chosen_sets_lists_their_tools_and_says_where_the_others_are(tmp_path):
    hello, listed, refused = talk(
        tmp_path,
        {"id": 1, "method": "initialize", "params": HELLO},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "freeze_round", "arguments": {}}},
        options=["--toolsets", "knowledge, evidence"],
    )
    sets = snapshot.load_toolsets()
    wanted = sorted([*sets["core"], *sets["evidence"], *sets["knowledge"]])
    assert [tool["name"] for tool in listed["result"]["tools"]] == wanted
    assert hello["result"]["instructions"].endswith("Offered here: toolsets core, evidence, knowledge.")
    assert "toolset rounds" in refused["error"]["message"]


def test_an_unknown_set_is_refused_with_those_there_are(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--toolsets", "evidence,everything"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "no toolset 'everything'" in said
    assert all(name in said for name in snapshot.load_toolsets())


def test_the_version_and_the_help_need_no_client(capsys):
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("atk-mcp ")
    assert command.main(["--help"]) == 0
    assert "[mcp_servers.atk]" in capsys.readouterr().out
