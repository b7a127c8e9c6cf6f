"""The process of one attempt at a business Skill: runs it by the Codex CLI in a home of its own.

It is started by file name with an isolated interpreter, so it uses the standard library only. Its options come as JSON
in the variable `ATK_ADAPTER_OPTIONS`. The Skill is copied into the attempt's own CODEX_HOME; the output is the final
message; events, loading evidence and metrics are taken from Codex's own record of the session. Exit codes: 0 completed,
1 the agent's error, 75 infrastructure (Codex or its model could not work), 143 cancelled.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

COMPLETED, AGENT_ERROR, INFRA_ERROR, CANCELLED = 0, 1, 75, 143
OPTIONS = "ATK_ADAPTER_OPTIONS"
_TOOL_ITEMS = {"mcp_tool_call", "command_execution", "web_search", "file_change"}
_PLACE = re.compile(r"\{(?:skill|input|attachments)\}")
_NEVER_COPIED = shutil.ignore_patterns(".git", ".atk", "__pycache__")


class Ended(Exception):
    """The attempt is over: with which exit code, and why in words."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def toml(value: Any) -> str:  # noqa: ANN401 - JSON
    """Returns a JSON value as TOML's inline form, which is what Codex's `-c key=value` takes.

    Raises:
        Ended: TOML has no such value.
    """
    if isinstance(value, str | bool | int | float):
        return json.dumps(value, ensure_ascii=False)  # a basic string of TOML as well, but for escaped surrogates
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {toml(item)}" for key, item in value.items()) + "}"
    raise Ended(INFRA_ERROR, f"The configuration has a value that TOML cannot have: {value!r}.")


def configuration(options: Mapping[str, Any]) -> str:
    """Returns the `config.toml` of the attempt's CODEX_HOME; each top-level setting is one line."""
    settings = {"check_for_update_on_startup": False, "analytics": {"enabled": False}, **options["config"]}
    if options.get("model"):
        settings["model"] = options["model"]
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in settings.items())


def prepare_home(options: Mapping[str, Any], folder: str) -> tuple[dict[str, str], str]:
    """Makes the attempt's HOME and CODEX_HOME with the Skill in it. Returns the environment and the Skill's copy.

    Raises:
        Ended: The Skill cannot be copied.
    """
    home, codex_home = os.path.join(folder, "home"), os.path.join(folder, "codex_home")
    source = os.path.abspath(options["skill_path"])
    staged = os.path.join(codex_home, "skills", options["skill_name"])
    os.makedirs(home, 0o700)
    os.makedirs(os.path.dirname(staged), 0o700)
    if not os.path.isfile(os.path.join(source, "SKILL.md")):
        raise Ended(AGENT_ERROR, f"There is no SKILL.md in {options['skill_path']}.")
    shutil.copytree(source, staged, ignore=_NEVER_COPIED)
    with open(os.path.join(codex_home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(configuration(options))
    if options.get("auth_file"):
        # A link, so that no copy of a login stays behind and Codex can renew it.
        os.symlink(os.path.expanduser(options["auth_file"]), os.path.join(codex_home, "auth.json"))
    return {**os.environ, "HOME": home, "CODEX_HOME": codex_home}, staged


def files_below(folder: str) -> Iterator[str]:
    """Yields the regular files below a folder by their relative names, in order."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, folder)


def sha256(path: str) -> str:
    """Returns a file's SHA-256."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def loading(staged: str, options: Mapping[str, Any], shown: str) -> list[dict[str, Any]]:
    """Returns the loading evidence: each file of the Skill's copy, and whether the session shows its text.

    Args:
        staged: The Skill's copy in CODEX_HOME.
        options: The adapter's options.
        shown: All that the session's record says was put before the model.
    """
    found = []
    for name in files_below(staged):
        path = os.path.join(staged, name)
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read().strip()
        found.append(
            {
                "component_id": options.get("component_id") or options["skill_name"],
                "path": name,
                "state": "loaded" if text and text in shown else "staged",
                "fingerprint": sha256(path),
                "resolved_path": path,
                "staged_from_path": os.path.join(os.path.abspath(options["skill_path"]), name),
            }
        )
    return found


def session_text(codex_home: str) -> str:
    """Returns every text of the rollout that Codex wrote: what the model was shown and what it said."""
    texts: list[str] = []
    for parent, _, names in os.walk(os.path.join(codex_home, "sessions")):
        for name in sorted(names):
            if name.startswith("rollout-") and name.endswith(".jsonl"):
                for entry in json_lines(os.path.join(parent, name)):
                    texts += strings(entry)
    return "\n".join(texts)


def strings(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yields every text inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from strings(item)


def json_lines(path: str) -> Iterator[dict[str, Any]]:
    """Yields the objects of a JSONL file; a line that is none was cut short when Codex was ended."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def outcome(events: list[dict[str, Any]], exit_code: int) -> str:
    """Returns the final message.

    Raises:
        Ended: There is none; a turn that failed is the model's or the network's, not the Skill's.
    """
    failed = [event for event in events if event.get("type") == "turn.failed"]
    if failed or exit_code:
        said = (failed[-1].get("error") or {}).get("message") if failed else None
        raise Ended(INFRA_ERROR, f"Codex could not finish the turn (exit code {exit_code}): {said or 'see above'}.")
    items = [event["item"] for event in events if event.get("type") == "item.completed" and "item" in event]
    messages = [item.get("text", "") for item in items if item.get("type") == "agent_message"]
    if not messages:
        raise Ended(AGENT_ERROR, "The session ended without a final message.")
    return str(messages[-1])


def metrics(events: list[dict[str, Any]]) -> dict[str, float]:
    """Returns what the session says of its cost: tool calls, and the tokens of all its turns."""
    done = [event.get("item", {}) for event in events if event.get("type") == "item.completed"]
    found: dict[str, float] = {"tool_calls": sum(item.get("type") in _TOOL_ITEMS for item in done)}
    for event in events:
        if event.get("type") == "turn.completed":
            for name, number in (event.get("usage") or {}).items():
                if isinstance(number, int):
                    found[name] = found.get(name, 0) + number
    return found


def command(options: Mapping[str, Any], prompt: str) -> list[str]:
    """Returns the command line of Codex."""
    return [
        options["codex"],
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--sandbox",
        options["sandbox"],
        *options["arguments"],
        "--",
        prompt,
    ]


def run(options: Mapping[str, Any], prompt: str, environment: Mapping[str, str], events_path: str) -> int:
    """Runs Codex and returns its exit code. A signal to end this process ends Codex too.

    Raises:
        Ended: Codex cannot be started, or ATK ended the attempt.
    """
    stopped = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        codex.terminate()

    with open(events_path, "wb") as events:
        try:
            codex = subprocess.Popen(
                command(options, prompt), stdin=subprocess.DEVNULL, stdout=events, stderr=sys.stderr, env=environment
            )
        except OSError as trouble:
            raise Ended(INFRA_ERROR, f"Codex cannot be started as {options['codex']}: {trouble}.") from trouble
        signal.signal(signal.SIGTERM, stop)
        code = codex.wait()
    if stopped:
        raise Ended(CANCELLED, "The attempt was ended by ATK before Codex had finished.")
    return code


def prompt_of(options: Mapping[str, Any], value: object, paths: Sequence[str]) -> str:
    """Returns what Codex is asked: the template with its places filled in once.

    Attachments that the template does not ask for by `{attachments}` follow at its end, each path on a line of its own.
    """
    listed = "\n".join(paths)
    filled = {
        "{skill}": options["skill_name"],
        "{input}": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
        "{attachments}": listed,
    }
    prompt: str = options["prompt"]
    if paths and "{attachments}" not in prompt:
        prompt += "\n\nAttachments:\n{attachments}"
    return _PLACE.sub(lambda found: filled[found[0]], prompt)


def write_json(folder: str, name: str, value: object) -> None:
    """Writes a side file of the attempt."""
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def main() -> int:
    """Makes the attempt and returns the exit code that says how it went."""
    parser = argparse.ArgumentParser(description="Make one attempt at a Skill by the Codex CLI.")
    for name in ("input-file", "output-dir", "events-file", "attachments-file"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    options = json.loads(os.environ.pop(OPTIONS))
    with open(given.input_file, encoding="utf-8") as file:
        value = json.load(file)
    with open(given.attachments_file, encoding="utf-8") as file:
        paths = [attachment["path"] for attachment in json.load(file)]
    prompt = prompt_of(options, value, paths)
    try:
        environment, staged = prepare_home(options, os.path.dirname(given.output_dir))
        code = run(options, prompt, environment, given.events_file)
        events = list(json_lines(given.events_file))
        shown = session_text(environment["CODEX_HOME"])
        write_json(given.output_dir, "loading.json", loading(staged, options, shown))
        write_json(given.output_dir, "metrics.json", metrics(events))
        sys.stdout.write(outcome(events, code))
    except Ended as ended:
        sys.stderr.write(f"{ended}\n")
        return ended.code
    return COMPLETED


if __name__ == "__main__":
    sys.exit(main())
