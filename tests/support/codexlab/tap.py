"""Transparent stdio tap: runs an MCP server and records every line of both directions.

Put it in front of the server under test in Codex's config:

    command = "python3"
    args = ["tap.py", "--log", "wire.jsonl", "--", "python3", "-m", "my_server"]

Log lines: {"t": unix time, "dir": ">" to server | "<" to Codex | "!" server stderr |
"lifecycle", ...}. The server stays in the tap's process group, so Codex's group
signals reach it as without the tap. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time


class WireLog:
    def __init__(self, path: str):
        self._handle = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - it lives as long as the tap
        self._lock = threading.Lock()

    def write(self, direction: str, **fields: object) -> None:
        with self._lock:
            self._handle.write(json.dumps({"t": round(time.time(), 4), "dir": direction, **fields}) + "\n")

    def line(self, direction: str, raw: bytes) -> None:
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        try:
            self.write(direction, message=json.loads(text))
        except ValueError:
            self.write(direction, text=text)


def _pump(source, sink, direction: str, log: WireLog) -> None:
    for raw in iter(source.readline, b""):
        log.line(direction, raw)
        if sink is None:
            continue
        try:
            sink.write(raw)
            sink.flush()
        except (BrokenPipeError, ValueError):
            return
    if direction == ">":
        log.write("lifecycle", event="stdin-eof")
        with contextlib.suppress(OSError):
            sink.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--log", required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- COMMAND ARGS...")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("no command given")

    log = WireLog(options.log)
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    log.write(
        "lifecycle",
        event="start",
        pid=server.pid,
        cwd=os.getcwd(),
        env={k: v for k, v in os.environ.items() if k != "PATH"},
        command=command,
    )
    threading.Thread(target=_pump, args=(sys.stdin.buffer, server.stdin, ">", log), daemon=True).start()
    errors = threading.Thread(target=_pump, args=(server.stderr, None, "!", log), daemon=True)
    errors.start()
    _pump(server.stdout, sys.stdout.buffer, "<", log)
    code = server.wait()
    errors.join(timeout=1)
    log.write("lifecycle", event="exit", code=code)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
