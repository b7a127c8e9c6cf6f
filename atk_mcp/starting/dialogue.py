"""Asks what a configuration has to say, in the order in which one answer leads to the next, and returns the request."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from typing import Any

from atk_mcp.starting import entries, proposals
from atk_mcp.starting.asking import Asking, Unusable, listed, one_of
from atk_mcp.starting.entries import Entry, Placement
from atk_mcp.starting.finding import Found
from operations.execution.command import CommandNotAList, check_template, placeholders
from storage.worktree import check_patterns, in_scope

TIMEOUT_SECONDS = 120
_TAKES_INPUT = {"input", "input_file", "case_id"}
_NO_AGENT = {"none", "nothing", "-"}
_PLACEMENTS: tuple[tuple[Placement, str], ...] = (
    ("argument", "as an argument, the text itself"),
    ("stdin", "on its standard input"),
    ("file", "in a file that an argument names; it holds JSON, so a text stands in quotes"),
)
_SHELL_WORDS = {"|", "||", "&&", "&", ";", ">", ">>", "<", "<<", "2>", "2>&1"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LOGIN = "~/.codex/auth.json"
_PROTECTIONS: tuple[tuple[str | None, str], ...] = (
    (None, "nothing yet; no run starts before something does"),
    ("test_environment", "it acts on a test environment only"),
    ("stub", "a stub stands in its place"),
    ("approved_safeguard", "another safeguard, which you approve"),
)


@dataclass(frozen=True)
class Started:
    """How the agent is started, as it was answered."""

    entry: Entry
    fields: dict[str, Any]
    """The part of the request that says it."""
    placement: Placement | None = None
    """None where the person wrote the placeholder, or the adapter puts the input in place."""


def request(asking: Asking, found: Found, *, git: bool) -> tuple[dict[str, Any], Started | None]:
    """Returns the request of `initialize_project` that the answers make, and how the agent is started.

    Args:
        asking: Who answers.
        found: What lies in the folder.
        git: Whether there is a repository to build on; without one nothing but imports and single tries are possible.

    Raises:
        AnswersEnded: There were no more answers.
    """
    started = how(asking, found)
    given: dict[str, Any] = {} if git else {"analysis_only": True}
    if started is None:
        return {"analysis_only": True}, None
    given |= started.fields
    _variables(asking, found, given)
    _scope(asking, found, started.entry, given)
    given["external_effects"] = _effects(asking, found)
    given["timeout_seconds"] = asking.ask(
        "timeout_seconds", "How many seconds may one attempt take?", str(TIMEOUT_SECONDS), _seconds
    )
    return given, started


def how(asking: Asking, found: Found) -> Started | None:
    """Asks what starts one attempt and where its input goes; None where nothing is to be started."""
    ways = entries.entries(found)
    asking.tell("\nWhat starts one attempt of your agent?" if ways else "\nNothing here looks like it starts an agent.")
    for number, way in enumerate(ways, 1):
        asking.show(f"  {number}  {_shown(way)}   ({way.why})")
    choices = "its number, or " if ways else ""
    asking.tell(f"Give {choices}the command as you type it, or none to only import and assess evidence.", indent="  ")
    entry = asking.ask("start", "Start", "1" if ways else "none", lambda given: _entry(given, ways, found))
    if entry is None:
        return None
    if entry.skill is not None:
        return Started(entry, _skill(asking, found, entry.skill))
    if entries.is_server(found, entry):
        asking.tell(
            f"{entry.source} looks like a server. An attempt that does not end by itself is ended as a timeout: a "
            "server is better reached by the adapter http, as docs/how-to/write-an-adapter.md says.",
            indent="  ",
        )
    if lacking := entries.uninstalled(found, entry):
        asking.tell(lacking, indent="  ")
    if placeholders(entry.argv) & _TAKES_INPUT:
        return Started(entry, {"command": list(entry.argv)})
    return placed(asking, entry, entries.guess(found, entry))


def placed(asking: Asking, entry: Entry, guess: entries.Guess) -> Started:
    """Asks how the agent takes its input, the guess being the default."""
    asking.tell(f"\nHow does it take its input? ({guess.why})")
    for number, (placement, words) in enumerate(_PLACEMENTS, 1):
        after = f", after {guess.flag}" if guess.flag and placement == "argument" else ""
        asking.show(f"  {number}  {words}{after}")
    names = [placement for placement, _ in _PLACEMENTS]
    default = str(names.index(guess.placement) + 1)
    chosen = asking.ask("input", "Its number", default, one_of(names))
    placement = names[chosen]
    flag = guess.flag if placement == "argument" else None
    return Started(entry, {"command": entries.command(entry.argv, placement, flag)}, placement)


def _shown(way: Entry) -> str:
    return shlex.join(way.argv) if way.skill is None else f"Codex with the Skill in {way.skill}"


def _entry(given: str, ways: list[Entry], found: Found) -> Entry | None:
    if given.lower() in _NO_AGENT:
        return None
    if given.isascii() and given.isdigit():
        return ways[one_of([_shown(way) for way in ways])(given)]
    try:
        argv = shlex.split(given)
    except ValueError as why:
        raise Unusable(f"The command cannot be read ({why}). Close every quote, as in a shell.") from None
    if shell := [word for word in argv if word in _SHELL_WORDS or "$(" in word or "`" in word]:
        raise Unusable(
            f"{shell[0]} is for a shell, and a command is started without one. Give it to a shell: "
            "sh -c 'the whole line, with \"$1\" where the input goes' agent {input}"
        )
    if not argv:
        raise CommandNotAList(given="empty")
    if _ASSIGNMENT.match(argv[0]):
        raise Unusable(
            f"{argv[0].partition('=')[0]}=… before a command is for a shell, and a command is started without one. Put "
            "env before it, or leave it out and name the variable where variables are asked for."
        )
    check_template(argv)
    own = (word.removeprefix(f"{found.root}/").removeprefix("./") for word in argv)
    source = next((path for path in own if path in found.by_path), None)
    return Entry(tuple(argv), "as you said", source)


def _skill(asking: Asking, found: Found, folder: str) -> dict[str, Any]:
    """Returns the fields for a Skill that Codex runs; its name is what its front matter says."""
    text = found.text("SKILL.md" if folder == "." else f"{folder}/SKILL.md")
    named = re.search(r"^name:[ \t]*['\"]?([a-z0-9-]{1,64})['\"]?[ \t]*$", text, re.MULTILINE)
    options = {"skill_path": folder} | ({"skill_name": named[1]} if named else {})
    if os.path.isfile(os.path.expanduser(_LOGIN)):
        asking.tell(f"\nEach attempt runs Codex in a home of its own, which can be linked to your login in {_LOGIN}.")
        if asking.confirm("auth_file", "Is it to use your login?"):
            options["auth_file"] = _LOGIN
    return {"adapter": "codex-skill", "adapter_options": options}


def _variables(asking: Asking, found: Found, given: dict[str, Any]) -> None:
    known: set[str] = set()
    if (file := proposals.env_file(found)) is not None:
        path, names = file
        asking.tell(f"\n{path} sets {', '.join(names[: proposals.MOST])}. Values are handed on and never stored.")
        if asking.confirm("env_file", f"Is the agent to get the variables of {path}?"):
            given["env_file"] = path
            known |= set(names)
    ready, missing = proposals.variables(found, known, os.environ)
    if not ready and not missing:
        return
    asking.tell("\nThe agent gets no variables but the usual ones and those that are named here.")
    if missing:
        asking.tell(f"Its code also reads {', '.join(missing)}, which nobody has set in this shell.", indent="  ")
    question = "Variables of this shell to hand on, by name"
    default = ", ".join(ready) or "nothing"
    if names := asking.ask("environment", question, default, _names):
        given["environment"] = names


def _scope(asking: Asking, found: Found, entry: Entry, given: dict[str, Any]) -> None:
    asking.tell("\nPaths are files, folders or globs, relative to this folder and separated by commas.")
    default = ", ".join(proposals.allowed(found, entry)) or "."
    may_change: list[str] = asking.ask(
        "allowed_paths", "What may be changed to make the agent better?", default, lambda said: _allowed(said, found)
    )
    proposed = ", ".join(proposals.protected(found, entry, may_change)) or "nothing"

    def check(said: str) -> list[str]:
        paths = list(check_patterns(listed(said)))
        if shut := [path for path in may_change if in_scope(path, paths)]:
            raise Unusable(
                f"{shut[0]} may be changed, so it cannot be protected as well. Leave it out of one of the two."
            )
        return paths

    given["allowed_paths"] = may_change
    given["protected_paths"] = asking.ask("protected_paths", "What must never be changed?", proposed, check)
    if parts := proposals.components(found, may_change, entry):
        given["components"] = parts


def _allowed(said: str, found: Found) -> list[str]:
    paths = list(check_patterns(listed(said)))
    if not paths:
        raise Unusable("Something has to be free to change. Name at least one path; . is everything.")
    lost = [path for path in paths if not os.path.lexists(os.path.join(found.root, path)) and not set(path) & set("*?")]
    if lost:
        raise Unusable(f"There is no {lost[0]} in {found.root}. Name what is there, or a glob.")
    return paths


def _effects(asking: Asking, found: Found) -> list[dict[str, Any]]:
    seen = proposals.effects(found)
    asking.tell(
        "\nAn attempt is a real run: whatever the agent can send, write or pay for outside this folder, it may."
    )
    for name, path in seen.items():
        asking.tell(f"{path} looks as if it reached: {name}", indent="  ")
    default = ", ".join(seen) or "nothing"
    question = "What can it act on outside this folder? (asking a model is none)"
    names: list[str] = asking.ask("external_effects", question, default, listed)
    return [{"name": name} | _protection(asking, name) for name in names]


def _protection(asking: Asking, name: str) -> dict[str, Any]:
    asking.tell(f"\nWhat keeps a run from doing harm through {name}?")
    for number, (_, words) in enumerate(_PROTECTIONS, 1):
        asking.show(f"  {number}  {words}")
    chosen = asking.ask(f"protection of {name}", "Its number", "1", one_of([words for _, words in _PROTECTIONS]))
    kind = _PROTECTIONS[chosen][0]
    if kind is None:
        return {}
    shows = asking.ask(f"evidence of {name}", "Where does that show? A file, a setting or a person's word", "", _said)
    return {"protection": {"kind": kind, "evidence_ref": shows}}


def _said(given: str) -> str:
    if not given:
        raise Unusable("Say in a few words where somebody can look.")
    return given


def _names(given: str) -> list[str]:
    names = listed(given)
    if wrong := [name for name in names if not (name.isidentifier() and name.isascii())]:
        raise Unusable(f"{wrong[0]!r} is no name of a variable. Give names such as OPENAI_API_KEY, never values.")
    if loader := [name for name in names if name.startswith(("LD_", "DYLD_"))]:
        raise Unusable(f"{loader[0]} is for the loader of programs and is not handed on. Leave it out.")
    return names


def _seconds(given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:  # noqa: PLR2004 - a day, which the request's schema says too
        raise Unusable(f"{given!r} is no number of seconds from 1 to 86400. Give one, such as {TIMEOUT_SECONDS}.")
    return seconds


def program_missing(found: Found, fields: dict[str, Any]) -> str | None:
    """Returns the program that the agent needs and that is not on this machine, or None."""
    if fields.get("adapter") == "codex-skill":
        return None if shutil.which("codex") else "codex"
    words = fields.get("command") or []
    program = words[5] if words[:2] == ["sh", "-c"] and words[3:5] == ["agent", "{input}"] else (words or [""])[0]
    if not program or "{" in program:
        return None
    there = os.path.exists(os.path.join(found.root, program)) if "/" in program else shutil.which(program)
    return None if there else program
