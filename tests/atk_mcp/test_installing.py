"""`atk install` puts one plugin into Codex with Codex's own commands, and takes it away again without a trace."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import atk_mcp
from atk_mcp import greeting, inspector, tokens
from atk_mcp.doctor import diagnosed
from atk_mcp.installing import plugin
from atk_mcp.installing.clients import CLIENT_NAMES, TOKEN_VARIABLE
from tests.atk_mcp.test_http import started
from tests.support.codexlab.driver import CodexLab
from tests.support.codexlab.script import offered_namespace

CODEX = os.environ.get("CODEX_BIN") or shutil.which("codex")
SKILLS = ["dataset", "decide", "diagnose", "eval", "init", "optimize", "validate"]

RECORDER = """\
#!{python}
import json, os, sys
with open({log!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if os.environ.get("FAIL") in sys.argv:
    sys.exit("no such marketplace")
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A person's home of the test's own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def codex(tmp_path):
    """A stand-in that records how it is called. Returns (program, what it was called with)."""
    program, log = tmp_path / "codex", tmp_path / "calls.jsonl"
    program.write_text(RECORDER.format(python=sys.executable, log=str(log)), encoding="utf-8")
    program.chmod(0o755)
    return str(program), lambda: [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def snapshot_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def test_plugin_has_manifest_server_and_the_seven_skills(codex):
    program, calls = codex
    assert inspector.main(["install", "--codex", program, "--env", "API_KEY"]) == 0
    assert calls() == [["plugin", "marketplace", "add", plugin.home()], ["plugin", "add", "atk@atk-local"]]
    root = Path(plugin.home(), "plugins", "atk")
    manifest = json.loads((root / ".codex-plugin" / "plugin.json").read_text("utf-8"))
    assert (manifest["name"], manifest["version"]) == ("atk", atk_mcp.__version__)
    server = json.loads((root / ".mcp.json").read_text("utf-8"))["mcpServers"]["atk"]
    assert os.path.isabs(server["command"])
    assert "cwd" not in server
    assert (server["required"], server["default_tools_approval_mode"]) == (True, "approve")
    assert server["env_vars"] == ["API_KEY"]
    for name in SKILLS:
        assert (root / "skills" / f"atk-{name}" / "SKILL.md").is_file()
        assert (root / "skills" / f"atk-{name}" / "agents" / "openai.yaml").is_file()


def test_dry_run_shows_everything_and_changes_nothing(home, codex, capsys):
    program, _ = codex
    before = snapshot_of(home)
    assert inspector.main(["install", "--codex", program, "--dry-run"]) == 0
    assert inspector.main(["install", "--codex", program, "--dry-run", "--uninstall"]) == 0
    shown = capsys.readouterr().out
    assert "plugin add atk@atk-local" in shown
    assert '"required": true' in shown
    assert "plugin remove atk@atk-local" in shown
    assert snapshot_of(home) == before


def test_older_plugin_is_replaced_whole_and_a_newer_server_says_so(codex, capsys, monkeypatch):
    program, _ = codex
    inspector.main(["install", "--codex", program])
    stray = Path(plugin.home(), "plugins", "atk", "skills", "atk-old", "SKILL.md")
    stray.parent.mkdir()
    stray.write_text("old", encoding="utf-8")
    manifest = Path(plugin.home(), "plugins", "atk", ".codex-plugin", "plugin.json")
    manifest.write_text(manifest.read_text("utf-8").replace(atk_mcp.__version__, "0.0.1"), encoding="utf-8")
    capsys.readouterr()

    assert diagnosed(os.getcwd(), as_json=False)
    assert "Run `atk install` again." in capsys.readouterr().out
    monkeypatch.setenv(greeting.PLUGIN_VERSION, "0.0.1")
    assert "run `atk install`" in greeting.instructions(atk_mcp.__version__)[:250]

    inspector.main(["install", "--codex", program])
    assert f"0.0.1 is replaced by {atk_mcp.__version__}" in capsys.readouterr().out
    assert not stray.exists()
    assert os.listdir(os.path.dirname(plugin.home())) == ["codex-marketplace"]


def test_uninstall_takes_everything_away_also_where_codex_has_forgotten_it(codex, capsys, monkeypatch):
    program, calls = codex
    inspector.main(["install", "--codex", program])
    monkeypatch.setenv("FAIL", "remove")
    assert inspector.main(["install", "--codex", program, "--uninstall"]) == 0
    assert calls()[-2:] == [["plugin", "remove", "atk@atk-local"], ["plugin", "marketplace", "remove", "atk-local"]]
    assert not os.path.exists(plugin.home())
    assert "no such marketplace" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        ("remove", "`codex plugin remove atk@atk-local` and `codex plugin marketplace remove atk-local` failed"),
        ("marketplace", "`codex plugin marketplace remove atk-local` failed"),
        (None, "ATK's plugin is taken away."),
    ],
)
def test_uninstall_says_what_was_taken_away_and_what_was_not(codex, capsys, monkeypatch, fails, told):
    program, _ = codex
    inspector.main(["install", "--codex", program])
    capsys.readouterr()
    monkeypatch.setenv("FAIL", fails or "")
    assert inspector.main(["install", "--codex", program, "--uninstall"]) == 0
    out = capsys.readouterr().out
    if fails:
        told = f"{plugin.home()} is taken away; {told}, as said above."
    assert out.startswith(told)
    assert ("codex plugin list" in out, "plugin is taken away" in out) == (bool(fails), not fails)


def test_failure_of_codex_is_told_with_its_command(codex, capsys, monkeypatch):
    program, _ = codex
    monkeypatch.setenv("FAIL", "add")
    assert inspector.main(["install", "--codex", program]) == 1
    assert "codex plugin marketplace add" in capsys.readouterr().err


def test_a_codex_that_hangs_or_cannot_run_or_writes_what_is_no_text_is_a_refusal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("atk_mcp.installing.run._SECONDS", 0.2)
    program = tmp_path / "codex"
    for script, told in (
        ("#!/bin/sh\nexec sleep 60\n", "ended with status 124: it had not ended after 0.2 s"),
        ("#!/no/such/interpreter\n", "cannot be started"),
        ("#!/bin/sh\nprintf 'caf\\351' >&2; exit 3\n", "ended with status 3: caf\ufffd"),
    ):
        program.write_text(script, encoding="utf-8")
        program.chmod(0o755)
        assert inspector.main(["install", "--codex", str(program)]) == 1
        assert told in capsys.readouterr().err


def test_missing_codex_is_told_with_what_else_there_is(capsys):
    assert inspector.main(["install", "--codex", "no-such-program"]) == 1
    assert "--client" in capsys.readouterr().err
    assert not os.path.exists(plugin.home())


@pytest.mark.parametrize("client", [name for name in CLIENT_NAMES if name != "codex"])
def test_lines_of_another_client_are_json_that_starts_the_server(client, capsys):
    assert inspector.main(["install", "--client", client, "--env", "API_KEY"]) == 0
    shown = capsys.readouterr().out
    text = shown[shown.index("{") : shown.rindex("}") + 1]
    table = json.loads(text[: text.rindex("\n}") + 2])
    (servers,) = table.values()
    assert os.path.isabs(servers["atk"]["command"])
    assert "API_KEY" in servers["atk"]["env"]
    assert plugin.home() not in shown


TOKEN_BY = {
    "claude-code": "Bearer ${ATK_HTTP_TOKEN}",
    "cursor": "Bearer ${env:ATK_HTTP_TOKEN}",
    "vscode": "Bearer ${input:atk-http-token}",
    "gemini": "Bearer $ATK_HTTP_TOKEN",
    "generic": "Bearer (the token)",
}


@pytest.mark.parametrize("client", TOKEN_BY)
def test_lines_over_http_reach_the_server_and_say_where_its_token_is_but_not_the_token(client, tmp_path, capsys):
    assert set(TOKEN_BY) == set(CLIENT_NAMES) - {"codex"}
    token = tokens.made_or_known("my token")
    assert inspector.main(["install", "--client", client, "--http", "--port", "7777", "--token-file", "my token"]) == 0
    shown = capsys.readouterr().out
    table, _ = json.JSONDecoder().raw_decode(shown[shown.index("{") :])
    server = table["servers" if client == "vscode" else "mcpServers"]["atk"]
    address = "httpUrl" if client == "gemini" else "url"
    assert (server[address], server["headers"]) == ("http://127.0.0.1:7777/mcp", {"Authorization": TOKEN_BY[client]})
    assert "command" not in server
    assert str(tmp_path / "my token") in shown
    assert token.secret not in shown
    assert "first start makes" not in shown
    if "ATK_HTTP_TOKEN" in TOKEN_BY[client]:
        (line,) = re.findall("^  (export .+)$", shown, re.MULTILINE)
        told = subprocess.run(["sh", "-c", f'{line}; printf %s "$ATK_HTTP_TOKEN"'], stdout=subprocess.PIPE, check=True)
        assert told.stdout.decode() == token.secret
    if client == "vscode":
        assert [(i["id"], i["password"]) for i in table["inputs"]] == [("atk-http-token", True)]


def test_plugin_over_http_has_the_skills_and_the_address_and_starts_nothing(codex, capsys):
    program, _ = codex
    assert inspector.main(["install", "--codex", program, "--http", "--token-file", "token"]) == 0
    root = Path(plugin.home(), "plugins", "atk")
    assert json.loads((root / ".mcp.json").read_text("utf-8"))["mcpServers"]["atk"] == {
        "url": "http://127.0.0.1:7285/mcp",
        "bearer_token_env_var": "ATK_HTTP_TOKEN",
        "required": True,
        "startup_timeout_sec": 60,
        "tool_timeout_sec": 600,
        "default_tools_approval_mode": "approve",
    }
    assert sorted(os.listdir(root / "skills")) == sorted(os.listdir(plugin.skills()))
    assert "Its first start makes the token." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--http", "--env", "X"], "--http"),
        (["--env", "KEY=secret"], "never values"),
        (["--client", "cursor", "--uninstall"], "Take the entry atk out of ~/.cursor/mcp.json"),
        (["--port", "1"], "--http"),
        (["--token-file", "x"], "--http"),
        (["--http", "--port", "0"], "1 to 65535"),
        (["--http", "--port", "65536"], "1 to 65535"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_written(options, told, capsys):
    assert inspector.main(["install", "--codex", "no-such-program", *options]) == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert "secret" not in shown
    assert not os.path.exists(plugin.home())


@pytest.mark.slow
@pytest.mark.skipif(CODEX is None, reason="no Codex: npm install -g @openai/codex, or name it in CODEX_BIN")
def test_real_codex_reaches_the_running_server_finds_it_again_and_says_when_it_has_no_token(
    tmp_path, monkeypatch, request
):
    server, url = started(tmp_path)
    port = url.split(":")[2].partition("/")[0]
    token = (tmp_path / "token").read_text("utf-8").strip()
    lab = CodexLab(CODEX, tmp_path / "lab")
    for name, value in lab.environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    assert inspector.main(["install", "--codex", CODEX, "--http", "--port", port, "--token-file", "token"]) == 0
    lab.keep_config()
    work = tmp_path / "project"
    work.mkdir()
    servers = [server]
    request.addfinalizer(lambda: [each.kill() or each.communicate() for each in servers if each.poll() is None])

    def play(model):
        made = model.call("atk", "initialize_project", {"analysis_only": True, "project_path": str(work)})
        servers[-1].terminate()
        servers[-1].communicate()
        missed = model.call("atk", "get_status", {"project_path": str(work)})
        servers.append(started(tmp_path, "--port", port)[0])
        found = model.call("atk", "get_status", {"project_path": str(work)})
        assert made.json["project_id"] == found.json["project_id"], (made.text, found.text)
        assert "Transport send error" in missed.text
        return "Done."

    run = lab.run(play=play, prompt="Use $atk:atk-init here.", workdir=work, env={TOKEN_VARIABLE: token})
    assert run.ok, json.dumps(run.summary(), indent=1)
    assert "name: atk-init" in json.dumps(run.requests[0]["input"])
    run = lab.run({"turns": []}, prompt="Use $atk:atk-init here.", workdir=work)
    assert (run.exit_code, run.requests) == (1, [])
    assert f"{TOKEN_VARIABLE} for MCP server 'atk' is not set" in run.stderr


@pytest.mark.slow
@pytest.mark.skipif(CODEX is None, reason="no Codex: npm install -g @openai/codex, or name it in CODEX_BIN")
def test_real_codex_starts_the_installed_plugin_in_the_persons_project_and_loses_it_again(tmp_path, monkeypatch):
    lab = CodexLab(CODEX, tmp_path / "lab")
    for name, value in lab.environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    assert inspector.main(["install", "--codex", CODEX]) == 0
    lab.keep_config()
    work = tmp_path / "project"
    work.mkdir()
    call = {"call": {"server": "atk", "tool": "initialize_project", "arguments": {"analysis_only": True}}, "id": "init"}
    script = {"turns": [{"steps": [call]}, {"steps": [{"say": "Done."}]}]}
    run = lab.run(script, prompt="Use $atk:atk-init here.", workdir=work)
    assert run.ok, json.dumps(run.summary(), indent=1)
    assert "initialize_project" in offered_namespace(run.requests[0], "mcp__atk")
    assert "# " in json.dumps(run.requests[0]["input"])
    assert "name: atk-init" in json.dumps(run.requests[0]["input"])
    assert "project_id" in run.tool_results["init"].json, run.tool_results["init"].text
    assert (work / ".atk").is_dir()

    assert inspector.main(["install", "--codex", CODEX, "--uninstall"]) == 0
    lab.keep_config()
    assert "atk" not in (lab.codex_home / "config.toml").read_text("utf-8").replace("atk-eval", "")
