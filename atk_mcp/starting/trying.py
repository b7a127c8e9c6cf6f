"""Says in plain words what one attempt showed, and what to change where the agent did not answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from atk_mcp.starting.entries import Placement

_OUTPUT_CHARACTERS = 600
_USAGE_EXIT = 2
_PACKAGE = (
    "A package is missing in the Python that was started. Install what the agent needs into .venv here, and start the "
    "agent with .venv/bin/python."
)
_MODULE = "A package of Node is missing. Install the agent's packages (npm ci), and try again."
_VARIABLE = (
    "It seems to lack a variable, perhaps a key. The agent gets only the usual variables: name the others in "
    "environment, or a file of them in env_file."
)
_FILE = (
    "A file was not found. The agent starts in working_directory, which is this folder unless another is given, and "
    "paths in the command count from there."
)
_RIGHTS = "Something may not be read or executed. For a script: chmod +x it, or name its interpreter."
_SERVICE = "A service was not reached. Start it, or name it in replay_preparation."
_SIGNS = (
    (r"ModuleNotFoundError: |ImportError: |No module named ", _PACKAGE),
    (r"Cannot find (module|package)|ERR_MODULE_NOT_FOUND", _MODULE),
    (r"KeyError: '[A-Z][A-Z0-9_]+'|(?i:api[_ ]?key)|AuthenticationError|[Mm]issing (environment )?variable", _VARIABLE),
    (r"No such file or directory|FileNotFoundError|ENOENT|can't open file", _FILE),
    (r"[Pp]ermission denied|EACCES", _RIGHTS),
    (r"[Cc]onnection refused|ECONNREFUSED|Name or service not known|getaddrinfo|ENOTFOUND", _SERVICE),
)
"""What an agent writes when something around it is not as it needs it, and what helps."""

_BY_HAND = "Start the same command by hand in this folder to see more, and correct what it says."
_SERVES = (
    "A program that serves or that waits for a person does not end by itself. Let it answer once and end, or reach it "
    "by the adapter http; where it is only slow, raise timeout_seconds."
)
_WANTS_STDIN = re.compile(
    r"EOFError|EOF when reading|(?i:unexpected end of (input|json))|Expecting value: line 1 column 1"
)
_WANTS_ARGUMENTS = re.compile(
    r"^\s?[Uu]sage:|unrecognized arguments|unexpected argument|IndexError: list index", re.MULTILINE
)


def in_words(smoke: Mapping[str, Any]) -> list[str]:
    """Returns sentences about an attempt: how it ended, what it wrote."""
    end, code, seconds = smoke["end"], smoke["exit_code"], smoke["duration_seconds"]
    output = str(smoke["output"]).strip()
    if end == "not_started":
        return [f"It could not be started: {output or 'the system gave no reason'}"]
    said = {
        "timeout": f"It did not end within its limit and was ended after {seconds} s.",
        "stopped": f"It was stopped after {seconds} s.",
    }.get(end, f"It started, and ended with exit code {code} after {seconds} s.")
    if not output:
        return [said, "It wrote nothing."]
    cut = output if len(output) <= _OUTPUT_CHARACTERS else "…" + output[-_OUTPUT_CHARACTERS:]
    return [said, "It wrote, to stdout (its answer) and to stderr:", *(f"  {line}" for line in cut.splitlines())]


def answered(smoke: Mapping[str, Any]) -> bool:
    """Whether the attempt ended well and wrote something."""
    return smoke["outcome"] == "completed" and bool(str(smoke["output"]).strip())


def advice(smoke: Mapping[str, Any], placement: Placement | None) -> list[str]:
    """Returns what to change, likeliest first; empty where the agent answered."""
    output = str(smoke["output"])
    if answered(smoke):
        return []
    if smoke["outcome"] == "completed":
        return ["What counts as the answer is what it writes to stdout. " + _other_place(placement)]
    if smoke["end"] == "not_started":
        return ["Look at the first word of the command: it is a program on PATH, or a path from this folder."]
    if smoke["end"] == "timeout":
        return [_SERVES]
    known = [words for sign, words in _SIGNS if re.search(sign, output)]
    elsewhere = [_other_place(placement)] if wants(smoke, placement) is not None else []
    return [*elsewhere, *(known or [_BY_HAND])]


def wants(smoke: Mapping[str, Any], placement: Placement | None) -> Placement | None:
    """Returns another way to hand over the input that the attempt suggests, or None."""
    output = str(smoke["output"])
    if placement is None or answered(smoke):
        return None
    if placement != "stdin" and _WANTS_STDIN.search(output):
        return "stdin"
    usage = _WANTS_ARGUMENTS.search(output) or smoke["exit_code"] == _USAGE_EXIT
    if placement == "stdin" and usage:
        return "argument"
    if placement == "argument" and re.search(r"FileNotFoundError|No such file|ENOENT", output):
        return "file"
    other: Placement = "stdin" if placement == "argument" else "argument"
    unexplained = smoke["outcome"] == "agent_error" and not any(re.search(sign, output) for sign, _ in _SIGNS)
    return other if unexplained or smoke["outcome"] == "completed" else None


def _other_place(placement: Placement | None) -> str:
    if placement is None:
        return "Perhaps its input belongs elsewhere: {input} is the text, {input_file} the path of a JSON file."
    here = {"argument": "as an argument", "stdin": "on its standard input", "file": "in a file"}[placement]
    return f"It got its input {here}; perhaps it takes it another way."
