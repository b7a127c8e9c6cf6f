"""Runs the real Codex CLI against a scripted model: no login, no network, nothing left behind.

One call is one isolated run: a private CODEX_HOME and HOME, a stub of the model on a free loopback
port, `codex exec --json`, a hard time limit, and a check that no process of the run is left. Linux.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.codexlab.config import base_config, server_table, tapped
from tests.support.codexlab.live import Conversation, LiveStub
from tests.support.codexlab.script import ToolResult, tool_results
from tests.support.codexlab.stub import ResponsesStub

TERM_GRACE_S = 5.0
# Environment of a run besides HOME, CODEX_HOME and the proxy guard.
INHERITED_ENV = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME")


@dataclass
class CodexRun:
    exit_code: int | None
    timed_out: bool
    elapsed_s: float
    out_dir: Path
    events: list[dict] = field(default_factory=list)
    stderr: str = ""
    requests: list[dict] = field(default_factory=list)
    egress: list[str] = field(default_factory=list)
    stub_errors: list[str] = field(default_factory=list)
    turns_left: int = 0
    leaked: list[dict] = field(default_factory=list)
    wire: dict[str, list[dict]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return (
            self.exit_code == 0
            and not self.timed_out
            and not self.stub_errors
            and self.turns_left == 0
            and not self.leaked
        )

    @property
    def tool_results(self) -> dict[str, ToolResult]:
        """Every tool output the model was shown, by call id."""
        found: dict[str, ToolResult] = {}
        for request in self.requests:
            found.update(tool_results(request))
        return found

    @property
    def mcp_calls(self) -> list[dict]:
        """The mcp_tool_call items `codex exec --json` reported as completed."""
        items = [e["item"] for e in self.events if e.get("type") == "item.completed"]
        return [i for i in items if i.get("type") == "mcp_tool_call"]

    def server_calls(self, server: str) -> list[dict]:
        """tools/call params that reached a tapped server (needs tap=True)."""
        messages = [w["message"] for w in self.wire.get(server, []) if w["dir"] == ">" and "message" in w]
        return [m["params"] for m in messages if m.get("method") == "tools/call"]

    @property
    def final_message(self) -> str:
        texts = [
            e["item"]["text"]
            for e in self.events
            if e.get("type") == "item.completed" and e["item"].get("type") == "agent_message"
        ]
        return texts[-1] if texts else ""

    def summary(self) -> dict:
        return {
            "ok": self.ok,
            "exit_code": self.exit_code,
            "timed_out": self.timed_out,
            "elapsed_s": round(self.elapsed_s, 2),
            "model_requests": len(self.requests),
            "turns_left": self.turns_left,
            "final_message": self.final_message,
            "mcp_calls": [
                {k: i.get(k) for k in ("server", "tool", "arguments", "status", "error")} for i in self.mcp_calls
            ],
            "tool_results": {k: r.payload_text[:2000] for k, r in self.tool_results.items()},
            "stub_errors": self.stub_errors,
            "egress_refused": self.egress,
            "leaked_processes": self.leaked,
            "out_dir": str(self.out_dir),
        }


# --------------------------------------------------------------------------
# Processes
# --------------------------------------------------------------------------


def _processes_of_session(session_id: int) -> list[dict]:
    """Live processes of a session (Codex keeps MCP servers in the session it runs in)."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            fields = stat[stat.rindex(")") + 2 :].split()
            if int(fields[3]) != session_id or fields[0] == "Z":
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except (OSError, ValueError):
            continue
        found.append({"pid": int(entry.name), "command": command[:300]})
    return found


def _kill(processes: Sequence[dict]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process["pid"], signal.SIGKILL)


def _run_bounded(  # noqa: PLR0917 - one caller, which names them in order
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    out: Path,
    err: Path,
    timeout_s: float,
    signal_after: tuple[float, int] | None,
    settle_s: float,
    signal_when: tuple[Path, int] | None = None,
) -> tuple[int | None, bool, float, list[dict]]:
    started = time.monotonic()
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    timed_out = False
    try:
        if signal_after is not None:
            try:
                process.wait(signal_after[0])
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal_after[1])
        if signal_when is not None:
            while not signal_when[0].exists() and process.poll() is None and time.monotonic() - started < timeout_s:
                time.sleep(0.05)
            os.killpg(process.pid, signal_when[1])
        try:
            process.wait(max(0.1, timeout_s - (time.monotonic() - started)))
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(TERM_GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(TERM_GRACE_S)
    finally:
        elapsed = time.monotonic() - started
        deadline = time.monotonic() + settle_s
        leaked = _processes_of_session(process.pid)
        while leaked and time.monotonic() < deadline:
            time.sleep(0.1)
            leaked = _processes_of_session(process.pid)
        _kill(leaked)
    return process.poll(), timed_out, elapsed, leaked


def read_jsonl(path: Path) -> list[dict]:
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


# --------------------------------------------------------------------------
# One run
# --------------------------------------------------------------------------


class CodexLab:
    """A private CODEX_HOME in which the real Codex runs against scripted models."""

    def __init__(self, codex: str, root: str | Path):
        self.codex = codex
        self.root = Path(root).resolve()
        self.codex_home = self.root / "codex_home"
        self.home = self.root / "home"
        for folder in (self.codex_home, self.home):
            folder.mkdir(parents=True, exist_ok=True)
        self._installed_config = ""

    def environment(self, proxy: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        env = {k: os.environ[k] for k in INHERITED_ENV if k in os.environ}
        env.update(HOME=str(self.home), CODEX_HOME=str(self.codex_home), NO_PROXY="127.0.0.1,localhost")
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            env[name] = env[name.lower()] = proxy
        env["no_proxy"] = env["NO_PROXY"]
        env.update(extra or {})
        return env

    def command(self, *args: str, timeout_s: float = 60) -> subprocess.CompletedProcess:
        """Run a codex subcommand (plugin, mcp, ...) in this home; config it writes is kept."""
        config = self.codex_home / "config.toml"
        config.write_text(self._installed_config, encoding="utf-8")
        # Port 9 (discard) refuses: nothing leaves the machine.
        done = subprocess.run(
            [self.codex, *args],
            check=False,
            env=self.environment("http://127.0.0.1:9"),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        self._installed_config = config.read_text(encoding="utf-8") if config.exists() else ""
        return done

    def keep_config(self) -> None:
        """Keeps what a command outside of `command` wrote into this home's configuration."""
        config = self.codex_home / "config.toml"
        self._installed_config = config.read_text(encoding="utf-8") if config.exists() else ""

    def install_plugin(self, marketplace_dir: str | Path, selector: str) -> None:
        """Add a local marketplace and install PLUGIN@MARKETPLACE from it."""
        for args in (
            ("plugin", "marketplace", "add", str(Path(marketplace_dir).resolve())),
            ("plugin", "add", selector),
        ):
            done = self.command(*args)
            if done.returncode != 0:
                raise RuntimeError(f"codex {' '.join(args)} failed: {done.stdout}{done.stderr}")

    def run(
        self,
        script: dict | None = None,
        *,
        name: str = "run",
        prompt: str = "Follow the script.",
        servers: Mapping[str, Mapping[str, Any]] | None = None,
        model: str = "stub-model",
        config_toml: str = "",
        codex_args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        workdir: str | Path | None = None,
        timeout_s: float = 120,
        tap: bool = False,
        signal_after: tuple[float, int] | None = None,
        settle_s: float = 3,
        play: Callable[[Conversation], str] | None = None,
        signal_when: tuple[Path, int] | None = None,
    ) -> CodexRun:
        """One run of Codex. Its model plays `script`, or `play` where that is given.

        `signal_when` sends Codex a signal as soon as a file exists.
        """
        out = self.root / name
        if out.exists():
            shutil.rmtree(out)
        out.mkdir(parents=True)
        work = Path(workdir).resolve() if workdir else out / "work"
        work.mkdir(parents=True, exist_ok=True)
        wire_logs: dict[str, Path] = {}
        with LiveStub(play, out / "requests") if play else ResponsesStub(script, out / "requests") as stub:
            parts = [config_toml_top(config_toml), base_config(stub.base_url, model)]
            for server, settings in (servers or {}).items():
                if tap:
                    wire_logs[server] = out / f"wire_{server}.jsonl"
                    parts.append(server_table(server, tapped(server, settings, wire_logs[server])))
                else:
                    parts.append(server_table(server, settings))
            parts += [config_toml_tables(config_toml), self._installed_config]
            (self.codex_home / "config.toml").write_text("\n".join(parts), encoding="utf-8")
            argv = [
                self.codex,
                "exec",
                "--json",
                "--skip-git-repo-check",
                "-C",
                str(work),
                *codex_args,
                prompt,
            ]
            code, timed_out, elapsed, leaked = _run_bounded(
                argv,
                self.environment(f"http://127.0.0.1:{stub.port}", env),
                work,
                out / "events.jsonl",
                out / "stderr.txt",
                timeout_s,
                signal_after,
                settle_s,
                signal_when,
            )
            result = CodexRun(
                exit_code=code,
                timed_out=timed_out,
                elapsed_s=elapsed,
                out_dir=out,
                events=read_jsonl(out / "events.jsonl"),
                stderr=(out / "stderr.txt").read_text(encoding="utf-8", errors="replace"),
                requests=list(stub.log.requests),
                egress=list(stub.log.egress),
                stub_errors=list(stub.log.errors),
                turns_left=stub.turns_left,
                leaked=leaked,
                wire={server: read_jsonl(path) for server, path in wire_logs.items()},
            )
        (out / "result.json").write_text(json.dumps(result.summary(), indent=1), encoding="utf-8")
        return result


def _first_table(config_toml: str) -> int:
    """Offset of the first [table] line: TOML top-level keys must come before any table."""
    offset = 0
    for line in config_toml.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            return offset
        offset += len(line)
    return len(config_toml)


def config_toml_top(config_toml: str) -> str:
    return config_toml[: _first_table(config_toml)]


def config_toml_tables(config_toml: str) -> str:
    return config_toml[_first_table(config_toml) :]
