"""Who comes to the HTTP server without the token, with broken HTTP or with broken messages harms no client."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import anyio
import pytest

from atk_mcp import __main__, tokens
from atk_mcp.homeless import ProjectNotNamed, refuse_unnamed
from atk_mcp.strangers import AT_ONCE, MAX_BYTES
from tests.atk_mcp import toys
from tests.atk_mcp.test_http import started
from tests.atk_mcp.test_http_calls import LONG, served
from tests.atk_mcp.test_main import ROOT
from tests.support.http_wire import GONE, HELLO, MODERN, Wire


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_strangers_are_few_and_a_client_is_served_among_them():
    async with served() as (url, _), Wire(url) as client:
        assert await client.answers(client.modern("server/discover")) == [200]
        strangers = [Wire(url) for _ in range(2 * AT_ONCE)]
        for stranger in strangers:
            await stranger.__aenter__()
            await stranger.stream.send(b"POST /mcp HTTP/1.1\r\n")
        for stranger in strangers[:AT_ONCE]:
            assert await stranger.is_cut()
        async with Wire(url) as late:
            assert await late.answers(late.modern("server/discover")) == [200]
        assert await client.answers(client.modern("server/discover")) == [200]
        for stranger in strangers:
            await stranger.__aexit__()


@pytest.mark.anyio
async def test_a_stranger_is_cut_off_after_a_while_and_a_client_is_not(monkeypatch):
    async with served() as (url, _), Wire(url) as client:
        assert await client.answers(client.modern("server/discover")) == [200]
        monkeypatch.setattr("atk_mcp.strangers.SECONDS", 0.05)
        async with Wire(url) as silent, Wire(url) as refused:
            await refused.stream.send(refused.modern("server/discover", token="other"))
            assert await silent.is_cut()
            assert await refused.is_cut()
        assert await client.answers(client.modern("server/discover")) == [200]


@pytest.mark.anyio
async def test_a_stranger_with_much_to_say_is_cut_off_and_a_client_is_heard():
    async with served() as (url, _), Wire(url) as stranger, Wire(url) as client:
        endless = stranger.head("Transfer-Encoding: chunked", token=None) + b"\r\n4000000\r\n" + b"x" * 0x4000000
        with pytest.raises(GONE):
            await stranger.stream.send(endless)
        long = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * 2 * MAX_BYTES}}
        assert await client.answers(client.request(long)) == [400]
        assert b"session" in client.body


SAID_WRONGLY = [
    (["Host: evil.example"], {}, [400]),
    (["Authorization: Bearer secret"], {}, [401]),
    (["X: " + "x" * 200_000], {}, [400]),
    ([], {"token": "x" * 10_000}, [401]),
    ([], {"token": None, "path": "/mcp?token=secret"}, [401]),
    ([], {"token": None, "path": "/mcp?access_token=secret&Authorization=Bearer%20secret"}, [401]),
    ([], {"path": "http://evil.example/mcp"}, [404]),
    ([], {"path": "/mcp/"}, [404]),
    ([], {"path": "/../mcp"}, [404]),
    ([], {"path": "//mcp"}, [404]),
    ([], {"path": "/mcp%00"}, [404]),
    ([], {"method": "PUT"}, [405]),
    ([], {"method": "OPTIONS"}, [405]),
    ([], {"method": "TRACE"}, [405]),
    ([], {"method": "GET"}, [400]),
    ([], {"method": "DELETE"}, [400]),
    ([], {"accept": "application/json"}, [406]),
    (["Mcp-Session-Id: " + uuid.uuid4().hex], {}, [404]),
    (["Mcp-Session-Id: ../../etc/passwd"], {}, [404]),
    (["Connection: Upgrade", "Upgrade: websocket"], {}, [200]),
]


@pytest.mark.anyio
async def test_requests_that_are_said_wrongly_are_refused_one_by_one():
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    async with served() as (url, _):
        found = []
        for lines, how, _ in SAID_WRONGLY:
            async with Wire(url) as wire:
                found.append((lines, how, await wire.answers(wire.request(hello, *lines, **how))))
    assert found == SAID_WRONGLY


def broken(wire, body):
    """Bytes that are no request, or more than one, and the status of each answer."""
    chunked = wire.head("Transfer-Encoding: chunked") + b"\r\n"
    good, stranger = wire.modern("server/discover"), wire.request(body, token=None)
    return [
        (b"GET /mcp\r\n\r\n", [400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [421, 400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300, [400]),
        (wire.head("Content-Length: 3", f"Content-Length: {len(body)}") + b"\r\n" + body, [400]),
        (wire.head("Content-Length: -1") + b"\r\n" + body, [400]),
        (wire.head("Content-Length: 1000000000000") + b"\r\n", [413]),
        (wire.head("Transfer-Encoding: gzip") + b"\r\n" + body, [400]),
        (wire.head("Authorization : Bearer secret", token=None) + b"\r\n", [400]),
        (chunked + b"zz\r\n", [400]),
        (chunked + b"5\r\nhelloXX0\r\n\r\n", [400]),
        (chunked + b"5;" + b"a" * 200_000, [400]),
        (stranger + good, [401, 200]),
        (good + stranger + good, [200, 401, 200]),
    ]


@pytest.mark.anyio
async def test_what_is_no_http_is_refused_and_each_request_of_a_connection_shows_the_token():
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode()
    async with served() as (url, _):
        said = broken(Wire(url), body)
        found = []
        for data, wanted in said:
            async with Wire(url) as wire:
                found.append((data, await wire.answers(data, len(wanted))))
        async with Wire(url) as wire:
            assert await wire.answers(wire.modern("server/discover")) == [200]
    assert found == said


MESSAGES = {
    "nothing": b"",
    "two at once": b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    "much too deep": b"[" * 100_000,
    "too deep": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 900 + b"]" * 900 + b"}}",
    "not UTF-8": b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}',
    "half a character": rb'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}',
    "a number without end": b'{"jsonrpc":"2.0","id":' + b"9" * 100_000 + b',"method":"ping"}',
    "another protocol": b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    "no method": b'{"jsonrpc":"2.0","id":1}',
    "a method that is none": b'{"jsonrpc":"2.0","id":1,"method":3}',
}


@pytest.mark.anyio
async def test_messages_that_are_none_are_refused_in_both_eras_and_the_next_is_answered():
    async with served() as (url, _), Wire(url) as old, Wire(url) as new:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        assert await old.answers(old.request(hello)) == [200]
        session = f"Mcp-Session-Id: {old.said[b'mcp-session-id'].decode()}"
        for body in MESSAGES.values():
            assert await old.answers(old.request(body, session)) == [400]
            assert await new.answers(new.request(body, f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: ping")) == [400]
        assert await old.answers(old.request(b'{"jsonrpc":"2.0","id":2,"method":"ping"}', session)) == [200]
        assert await new.answers(new.modern("server/discover")) == [200]


@pytest.mark.anyio
async def test_a_client_that_wants_to_go_on_from_an_event_gets_a_stream_from_now_on():
    async with served() as (url, _), Wire(url) as wire:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        assert await wire.answers(wire.request(hello)) == [200]
        session = f"Mcp-Session-Id: {wire.said[b'mcp-session-id'].decode()}"
        await wire.stream.send(wire.request(b"", session, "Last-Event-ID: 1", method="GET"))
        assert (await wire.until(b"\r\n")).split(b" ")[1] == b"200"


@pytest.mark.anyio
async def test_a_session_that_was_ended_is_no_session_any_more():
    async with served() as (url, _), Wire(url) as wire:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        assert await wire.answers(wire.request(hello)) == [200]
        session = f"Mcp-Session-Id: {wire.said[b'mcp-session-id'].decode()}"
        ping = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
        assert await wire.answers(wire.request(ping, session)) == [200]
        assert await wire.answers(wire.request(b"", session, method="DELETE", token="other")) == [401]
        assert await wire.answers(wire.request(ping, session)) == [200]
        assert await wire.answers(wire.request(b"", session, method="DELETE")) == [200]
        for method in ("POST", "GET", "DELETE"):
            assert await wire.answers(wire.request(ping, session, method=method)) == [404]


@pytest.mark.anyio
async def test_a_client_that_goes_away_gives_up_its_call_where_there_are_no_sessions(tmp_path):
    toys.ended.clear()
    waiting = {"project_path": str(tmp_path), "forever": True, "steps": 1}
    async with served() as (url, _):
        async with Wire(url) as wire:
            await wire.stream.send(wire.call("wait_for_batch", waiting, token="t"))
            await wire.until(b"notifications/progress")
        assert await anyio.to_thread.run_sync(toys.ended.wait, LONG)


@pytest.mark.anyio
async def test_a_client_that_does_not_read_holds_up_nobody_and_not_the_end(tmp_path):
    toys.ended.clear()
    async with served() as (url, _), Wire(url) as deaf, Wire(url) as client:
        steps = {"project_path": str(tmp_path), "steps": 2_000}
        await deaf.stream.send(deaf.call("wait_for_batch", steps, token="x" * 5_000))
        assert await anyio.to_thread.run_sync(toys.ended.wait, LONG)
        assert await client.answers(client.call("get_status", {"project_path": str(tmp_path)})) == [200]
        assert b"All is well." in client.body


def test_a_project_path_that_is_no_path_is_refused_as_one_that_is_missing():
    for given in ("~\0", "\0", "\ud800"):
        with pytest.raises(ProjectNotNamed):
            refuse_unnamed("get_status", {"project_path": given})


@pytest.mark.parametrize("option", ["--port=1", "--token-file=x", "--project=x"])
def test_an_option_of_the_http_server_without_it_is_refused(option, capsys):
    with pytest.raises(SystemExit) as ended:
        __main__.main([option])
    assert ended.value.code == 2
    assert f"{option.partition('=')[0]} goes with --http" in capsys.readouterr().err


def test_where_the_token_lies_depends_on_no_working_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("", "relative", "./x"):
        monkeypatch.setenv("XDG_CONFIG_HOME", given)
        assert tokens.token_path() == str(tmp_path / ".config" / "atk" / "http-token")


def test_a_token_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    code = """if True:
        import resource, sys
        from atk_mcp import tokens
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        try:
            tokens.made_or_known(sys.argv[1])
        except tokens.TokenUnusable as error:
            print(error.reason)
    """
    command = [sys.executable, "-c", code, str(tmp_path / "token")]
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=LONG, check=True)
    assert told.stdout == "File too large\n"
    assert os.listdir(tmp_path) == []


def test_the_token_is_told_to_nobody_and_stdout_has_the_address_alone(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    command = [sys.executable, "-m", "atk_mcp", "--http", "--port=0", "--token-file=token", "--project=project"]
    environment = {**os.environ, "PYTHONPATH": ROOT}
    with (
        (tmp_path / "err").open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, cwd=tmp_path, env=environment) as server,
    ):
        url = server.stdout.readline().decode()
        token = (tmp_path / "token").read_text("utf-8").strip()
        port = int(url.split(":")[2].partition("/")[0])
        for given in (token, token + "x"):
            with socket.create_connection(("127.0.0.1", port), LONG) as client:
                ask = f"POST /mcp?{token} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {given}\r\n\r\n"
                client.sendall(ask.encode())
                while client.recv(1000):
                    pass
        shown = [Path(f"/proc/{server.pid}/{what}").read_bytes() for what in ("cmdline", "environ")]
        server.send_signal(signal.SIGTERM)
        assert server.wait(LONG) == 0
        assert server.stdout.read() == b""
    shown.append((tmp_path / "err").read_bytes())
    assert [token.encode() in each for each in shown] == [False, False, False]
    assert str(tmp_path / "token").encode() in shown[2]
    assert os.listdir(project) == []


@pytest.mark.slow
def test_a_thousand_sessions_leave_no_file_and_no_memory_behind(tmp_path):
    process, url = started(tmp_path)
    token = (tmp_path / "token").read_text("utf-8").strip()
    about = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "*/*"}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})

    def held():
        status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
        return len(os.listdir(f"/proc/{process.pid}/fd")), int(status.partition("VmRSS:")[2].split()[0])

    def come_and_go(times):
        for _ in range(times):
            client.request("POST", "/mcp", hello, about)
            came = client.getresponse()
            assert b"serverInfo" in came.read()
            client.request("DELETE", "/mcp", headers=about | {"Mcp-Session-Id": came.headers["mcp-session-id"]})
            left = client.getresponse()
            left.read()
            assert left.status == 200
        return held()

    with process:
        client = http.client.HTTPConnection("127.0.0.1", int(url.split(":")[2].partition("/")[0]))
        files, kilobytes = come_and_go(300)
        more_files, more_kilobytes = come_and_go(1_000)
        assert more_files == files
        assert more_kilobytes - kilobytes < 8_000  # 1,000 sessions that were kept would take 38,000
        client.close()
        process.kill()
