"""The record of a wire: what passes is untouched, what is written is masked, what is shown can be read."""

import json
import os
import signal
import stat
import subprocess
import sys

import pytest

from atk_mcp.inspector import main
from atk_mcp.tracing.recorder import Recorder, TraceUnusable, opened
from atk_mcp.tracing.showing import entries, lines

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG = 300
SECRET = "sk-proj-abcdefghijklmnopqrstuvwx0123456789ABCDEF"
ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()\nsys.exit(3)"
HANG = (
    "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nprint('up', flush=True)\nsignal.pause()"
)


def traced(path, *command):
    return subprocess.Popen(
        [sys.executable, "-m", "atk_mcp.inspector", "trace", "record", str(path), "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": ROOT},
        bufsize=0,
    )


def test_every_byte_passes_as_it_came_and_the_server_s_status_is_the_end(tmp_path):
    path = tmp_path / "wire.trace"
    sent = b'{"id": 1,  "method":"x"}\r\n\xff\xfe not JSON\n\n' + b"x" * 300_000 + b"\nno end of line"
    with traced(path, sys.executable, "-c", ECHO) as process:
        got, said = process.communicate(sent, timeout=LONG)
    assert (got, said, process.returncode) == (sent, b"", 3)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = list(entries(str(path)))
    assert [entry["from"] for entry in found if entry["from"] != "server"] == ["trace", *["client"] * 4, "trace"]
    assert found[1]["message"] == {"id": 1, "method": "x"}
    assert found[-1]["ended"] == 3
    assert sum(entry["bytes"] for entry in found if entry["from"] == "client") == len(sent)


def test_a_signal_reaches_the_server_and_its_end_is_the_end(tmp_path):
    path = tmp_path / "wire.trace"
    with traced(path, sys.executable, "-c", HANG) as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 7
    assert list(entries(str(path)))[-1]["ended"] == 7


def test_a_server_that_is_killed_is_told_as_shells_tell_it(tmp_path):
    path = tmp_path / "wire.trace"
    with traced(path, sys.executable, "-c", "import os; os.kill(os.getpid(), 9)") as process:
        assert process.wait(LONG) == 137


def recorded(path, *passed, command=("atk-mcp",), folder="/"):
    """Records a session in this process and returns its entries."""
    recorder = Recorder(opened(str(path)), command, str(folder))
    for side, line in passed:
        recorder.passed(side, line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
    recorder.finish(0)
    return list(entries(str(path)))


def call(number, name, arguments):
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def test_no_credential_is_written_wherever_it_stands(tmp_path):
    path = tmp_path / "wire.trace"
    recorded(
        path,
        ("client", call(1, "store_dataset", {"cases": [{"password": "hunter2hunter2", "note": f"use {SECRET}"}]})),
        ("server", f"not JSON, with {SECRET}\n".encode()),
        ("server", json.dumps({"text": json.dumps({"token": SECRET})}).encode()[:-1]),
        command=("atk-mcp", f"--token={SECRET}"),
    )
    text = path.read_text()
    assert SECRET not in text
    assert "hunter2" not in text
    assert text.count("[masked:") >= 4


def test_a_message_in_pieces_is_one_and_two_in_a_piece_are_two(tmp_path):
    found = recorded(
        tmp_path / "wire.trace", ("client", b'{"id"'), ("server", b'{"a":1}\n{"b":2}\n'), ("client", b":1}\n")
    )
    assert [(entry["from"], entry["message"]) for entry in found[1:-1]] == [
        ("server", {"a": 1}),
        ("server", {"b": 2}),
        ("client", {"id": 1}),
    ]


def test_a_message_that_is_too_long_is_kept_by_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr("atk_mcp.tracing.recorder.LONGEST", 20)
    (_, entry, _) = recorded(tmp_path / "wire.trace", ("client", {"text": "y" * 100}))
    assert entry["cut"]
    assert (entry["text"], entry["bytes"]) == ('{"text":"yyyyyyyyyyy', 113)


def test_a_trace_is_told_in_lines(tmp_path, capsys):
    path = tmp_path / "wire.trace"
    answer = {"content": [{"type": "text", "text": "Error [x] A\n refusal.\x1b[2J"}], "isError": True}
    recorded(
        path,
        ("client", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}),
        ("server", {"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {}, "capabilities": {}}}),
        ("client", call(2, "get_status", {"project_path": "/p"})),
        ("server", {"method": "notifications/progress", "params": {"progress": 3, "total": 10, "message": "three"}}),
        ("server", {"jsonrpc": "2.0", "id": 2, "result": answer}),
        ("client", call("a", "read_record", {})),
        ("server", {"jsonrpc": "2.0", "id": 9, "error": {"code": -32602, "message": "No."}}),
        ("server", b"a stray print\n"),
    )
    assert main(["trace", "show", str(path)]) == 0
    shown = [line.partition(" s ")[2] or line for line in capsys.readouterr().out.splitlines()]
    assert shown[0].endswith(": atk-mcp")
    shown = [line.rpartition("  (")[0] or line for line in shown[1:]]
    assert shown[0] == "→ initialize #1"
    assert shown[1].startswith("← initialize #1, ")
    assert shown[1].endswith('ms: ["capabilities","serverInfo"]')
    assert shown[2] == '→ tools/call get_status #2 {"project_path":"/p"}'
    assert shown[3] == "← notifications/progress 3/10 three"
    assert shown[4].endswith("ms: error: Error [x] A refusal.\\u001b[2J")
    assert shown[5] == "→ tools/call read_record #a"
    assert shown[6].startswith("← (nothing asked) #9, ")
    assert shown[6].endswith("error -32602 No.")
    assert shown[7] == "← no message: a stray print"
    assert "ended with status 0: 3 requests, 2 errors, 1 unanswered; " in shown[8]


def test_a_trace_as_json_is_what_was_recorded_session_after_session(tmp_path, capsys):
    path = tmp_path / "wire.trace"
    recorded(path, ("client", {"id": 1}))
    found = recorded(path, ("client", {"id": 2}))
    assert len({entry["session"] for entry in found}) == 2
    assert main(["trace", "show", str(path), "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == found


def test_a_line_that_is_still_being_written_is_left_out(tmp_path):
    path = tmp_path / "wire.trace"
    found = recorded(path)
    with path.open("a") as file:
        file.write('{"session": "ab')
    assert list(entries(str(path))) == found
    assert len(list(lines(entries(str(path))))) == 2


@pytest.mark.parametrize("depth", [200, 320, 500, 900, 5_000])
def test_a_message_of_any_depth_is_kept_and_the_record_goes_on(tmp_path, depth):
    line = b"[" * depth + b'"' + SECRET.encode() + b'"' + b"]" * depth + b"\n"
    found = recorded(tmp_path / "wire.trace", ("client", line), ("server", {"id": 1}))
    assert [entry["from"] for entry in found] == ["trace", "client", "server", "trace"]
    assert found[1]["bytes"] == len(line)
    assert SECRET not in (tmp_path / "wire.trace").read_text()


def test_a_disk_that_is_full_ends_the_record_and_nothing_is_kept_in_memory(capsys):
    recorder = Recorder(os.open("/dev/full", os.O_WRONLY), ("atk-mcp",), "/")
    for _ in range(3):
        recorder.passed("client", b"{}\n")
    recorder.finish(0)
    assert recorder._passed.empty()
    assert capsys.readouterr().err == "atk trace: the record ends here: No space left on device.\n"


def test_a_trace_lies_in_the_home_that_a_configuration_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    os.close(opened("~/wire.trace"))
    assert (tmp_path / "wire.trace").exists()


def test_what_a_message_holds_begins_no_line_and_breaks_none(tmp_path, capsys):
    path, feed = tmp_path / "wire.trace", "x\n    0.000 s ← forged"
    progress = {"method": "notifications/progress", "params": {"progress": feed, "total": 10**400, "message": feed}}
    recorded(
        path,
        ("client", {"id": feed, "method": feed, "params": {"name": feed, "arguments": {"a": feed}}}),
        ("server", progress),
        ("server", {"id": feed, "error": {"code": feed, "message": feed}}),
        ("client", {"method": feed}),
        command=("atk-mcp", feed),
    )
    assert main(["trace", "show", str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6


@pytest.mark.parametrize(
    "line",
    [
        '{"from": "client", "session": "x"}',
        '{"from": "client", "session": [1], "ms": 1, "bytes": 1}',
        '{"from": "trace", "session": "x", "ms": 1}',
        "[" * 100_000,
    ],
)
def test_a_line_that_no_trace_has_is_refused(tmp_path, capsys, line):
    (tmp_path / "wire.trace").write_text(f"{line}\n")
    assert main(["trace", "show", str(tmp_path / "wire.trace")]) == 1
    assert "line 1 is not of a trace" in capsys.readouterr().err


def test_a_file_that_others_may_read_or_that_is_no_trace_is_refused(tmp_path, capsys):
    shared = tmp_path / "shared"
    shared.write_text("{}\n")
    shared.chmod(0o644)
    with pytest.raises(TraceUnusable, match="0644"):
        opened(str(shared))
    link = tmp_path / "link"
    link.symlink_to(shared)
    with pytest.raises(TraceUnusable):
        opened(str(link))
    assert main(["trace", "show", str(shared), "--json"]) == 1
    told = json.loads(capsys.readouterr().err)
    assert (told["code"], told["facts"]["path"]) == ("trace_unusable", str(shared))
    assert main(["trace", "show", str(tmp_path / "none")]) == 1


def test_a_server_that_cannot_be_started_is_refused(tmp_path, capsys):
    assert main(["trace", "record", str(tmp_path / "wire.trace"), "--", str(tmp_path / "no-such-server")]) == 1
    assert "Error [server_not_started]" in capsys.readouterr().err
