"""The command line of an agent: a template of arguments, checked once and filled in for each attempt.

A placeholder is a whole `{name}` of the names below. `{{` is a literal `{`, and the `}}` that belongs to it a literal
`}`; a `}}` without a `{{` before it stays as it is, and so does every other brace, so that a JSON argument can be
written as it is. A name that is none of ours is refused, because it is far more often a misspelling than a text.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from storage.errors import AtkError, NextCall

PLACEHOLDERS = ("input", "input_file", "attachments_file", "output_dir", "events_file", "case_id", "repeat_index")
"""What a command may ask for."""

_ALIKE = (
    "The command has none of {input}, {input_file} and {case_id}, so the agent is started alike for every Case and "
    "cannot know which one it is given."
)
_TOKEN = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CONFIGURE: tuple[NextCall, ...] = (NextCall("initialize_project", supply={"command": "the corrected command"}),)


@dataclass(kw_only=True, eq=False)
class CommandNotAList(AtkError):
    """A command that is not a list of strings: ATK starts programs directly, never through a shell."""

    given: str

    message: ClassVar[str] = (
        "The command is {given}, but it must be a non-empty list of strings: the program and its arguments, each on "
        'its own. ATK uses no shell; write ["sh", "-c", "..."] to have one.'
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = _CONFIGURE


@dataclass(kw_only=True, eq=False)
class NulInCommand(AtkError):
    """An argument with a NUL, which no program can be given."""

    position: int

    message: ClassVar[str] = (
        "Argument {position} of the command (counted from 0) contains a NUL character, which no program can be given. "
        "Remove it."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = _CONFIGURE


@dataclass(kw_only=True, eq=False)
class UnknownPlaceholder(AtkError):
    """A `{name}` that is not one of ours."""

    name: str
    position: int
    closest: str
    allowed: tuple[str, ...] = PLACEHOLDERS

    message: ClassVar[str] = (
        "Argument {position} of the command (counted from 0) has the placeholder {{{name}}}, which does not exist; the "
        "closest is {{{closest}}}. Allowed are: {allowed}. To have the text itself, double its braces: {{{{{name}}}}}."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = _CONFIGURE


def check_template(command: object) -> tuple[str, ...]:
    """Returns warnings about a command that can be run: sentences, none for an ordinary command.

    Raises:
        CommandNotAList: It is not a non-empty list of strings, or the program's name is empty.
        NulInCommand: An argument contains a NUL.
        UnknownPlaceholder: An argument has a `{name}` that is not one of `PLACEHOLDERS`.
    """
    arguments = _arguments(command)
    used: set[str] = set()
    for position, argument in enumerate(arguments):
        if "\0" in argument:
            raise NulInCommand(position=position)
        for name in _names(argument):
            if name not in PLACEHOLDERS:
                closest = difflib.get_close_matches(name.lower(), PLACEHOLDERS, n=1, cutoff=0.0)[0]
                raise UnknownPlaceholder(name=name, position=position, closest=closest)
            used.add(name)
    if used.isdisjoint({"input", "input_file", "case_id"}):
        return (_ALIKE,)
    return ()


def placeholders(command: Iterable[str]) -> frozenset[str]:
    """Returns the names that a command asks for; a literal `{{name}}` is none of them."""
    return frozenset(name for argument in command for name in _names(argument))


def expand(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Returns the arguments of one attempt: `command` with every placeholder replaced by its value, once."""
    return [_expand(argument, values) for argument in command]


def as_argument(value: object) -> str:
    """Returns a Case's input as the agent gets it in an argument: text as it is, other JSON as compact JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _arguments(command: object) -> Sequence[str]:
    if not isinstance(command, list | tuple):
        raise CommandNotAList(given=f"of type {type(command).__name__}")
    if not command:
        raise CommandNotAList(given="an empty list")
    for position, argument in enumerate(command):
        if not isinstance(argument, str):
            raise CommandNotAList(given=f"a list whose item {position} is of type {type(argument).__name__}")
    if not command[0].strip():
        raise CommandNotAList(given="a list whose first item, the program, is empty")
    return command


def _names(argument: str) -> list[str]:
    return [match[1] for match in _TOKEN.finditer(argument) if match[1] is not None]


def _expand(argument: str, values: Mapping[str, str]) -> str:
    opened = 0

    def replacement(match: re.Match[str]) -> str:
        nonlocal opened
        if match[1] is not None:
            return values[match[1]]
        if match[0] == "{{":
            opened += 1
            return "{"
        if opened:
            opened -= 1
            return "}"
        return "}}"

    return _TOKEN.sub(replacement, argument)
