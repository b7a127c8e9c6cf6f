"""`atk completion`: writes a shell's completion of `atk` from its own parser and the tools on record."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from atk_mcp import snapshot

Shell = Literal["bash", "zsh", "fish"]

_FILES = frozenset({"FILE", "PATH"})
_FOLDERS = frozenset({"DIR"})
_OPERATIONS = frozenset({"NAME", "OPERATION"})
"""What the parser calls a value, and what it so can be completed with."""

_ONLY_TOOLS = ("call", "tools")


@dataclass
class _Place:
    """What may follow at one place of a command line."""

    path: tuple[str, ...]
    words: list[str] = field(default_factory=list)
    files: bool = False
    values: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    """What the options that take a value take: words, `files`, `folders`, or nothing that is known."""


def script(shell: Shell, parser: argparse.ArgumentParser) -> str:
    """Returns the script for one shell."""
    places = list(_places(parser, ()))
    if shell == "fish":
        return _fish(places)
    return _walking(places, _BASH if shell == "bash" else _ZSH)


def _places(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[_Place]:
    """Yields the parser's own place and those of its commands, outermost first."""
    place = _Place(path)
    inner: Mapping[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to what a parser takes
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            inner = action.choices
            place.words += inner
        elif action.option_strings:
            place.words += action.option_strings
            if action.nargs != 0:
                place.values |= dict.fromkeys(action.option_strings, _value(action, path))
        elif (value := _value(action, path)) == "files":
            place.files = True
        elif isinstance(value, tuple):
            place.words += value
    yield place
    for name, command in inner.items():
        yield from _places(command, (*path, name))


def _value(action: argparse.Action, path: tuple[str, ...]) -> str | tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    name = str(action.metavar)
    if name in _OPERATIONS and path and path[0] in _ONLY_TOOLS:
        return tuple(tool["name"] for tool in snapshot.load())
    return "files" if name in _FILES else "folders" if name in _FOLDERS else ()


def _paths(places: Sequence[_Place]) -> str:
    return "|".join(f'"{" ".join(place.path)}"' for place in places if place.path)


@dataclass(frozen=True, kw_only=True)
class _Dialect:
    """How one of the shells of one family says what the scripts need."""

    head: tuple[str, ...]
    words: str
    """Offers the words in place of `{}`."""
    files: str
    folders: str
    foot: str


_BASH = _Dialect(
    head=(
        "# For bash: atk completion bash > ~/.local/share/bash-completion/completions/atk",
        "_atk() {",
        '    local at="" i word cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        word="${at:+$at }${COMP_WORDS[i]}"',
    ),
    words='COMPREPLY+=($(compgen -W "{}" -- "$cur"))',
    files="local IFS=$'\\n'; compopt -o filenames; COMPREPLY+=($(compgen -f -- \"$cur\"))",
    folders="local IFS=$'\\n'; compopt -o filenames; COMPREPLY+=($(compgen -d -- \"$cur\"))",
    foot="complete -F _atk atk",
)
_ZSH = _Dialect(
    head=(
        "#compdef atk",
        "# For zsh: put this as _atk into a folder of $fpath, or source it after compinit.",
        "_atk() {",
        '    local at="" i word cur="${words[CURRENT]}" prev="${words[CURRENT-1]}"',
        "    for ((i = 2; i < CURRENT; i++)); do",
        '        word="${at:+$at }${words[i]}"',
    ),
    words="compadd -- {}",
    files="_files",
    folders="_files -/",
    foot='if [ "$funcstack[1]" = _atk ]; then _atk "$@"; else compdef _atk atk; fi',
)


def _walking(places: Sequence[_Place], dialect: _Dialect) -> str:
    """Returns a script that finds out at which command the cursor is, then offers what may follow there.

    Options are offered once a word begins with a dash.
    """
    lines = [*dialect.head, f'        case "$word" in {_paths(places)}) at="$word" ;; esac', "    done"]
    lines += ['    case "$at:$prev" in']
    for place in places:
        for option, value in place.values.items():
            lines += [f'        "{" ".join(place.path)}:{option}") {_offered(value, dialect)}; return ;;']
    lines += ["    esac", '    case "$at:$cur" in']
    for place in places:
        at = " ".join(place.path)
        plain = tuple(word for word in place.words if not word.startswith("-"))
        follow = [_offered(plain, dialect)] if plain or not place.files else []
        follow += [dialect.files] if place.files else []
        lines += [f'        "{at}:-"*) {_offered(tuple(set(place.words) - set(plain)), dialect)} ;;']
        lines += [f'        "{at}:"*) {"; ".join(follow)} ;;']
    return "\n".join([*lines, "    esac", "}", dialect.foot])


def _offered(value: str | tuple[str, ...], dialect: _Dialect) -> str:
    if isinstance(value, str):
        return dialect.files if value == "files" else dialect.folders
    return dialect.words.format(" ".join(sorted(value))) if value else ":"


def _fish(places: Sequence[_Place]) -> str:
    lines = [
        "# For fish: atk completion fish > ~/.config/fish/completions/atk.fish",
        "function __atk_at",
        "    set -l at",
        "    for word in (commandline -opc)[2..-1]",
        f"        contains -- (string join -- ' ' $at $word) {_paths(places).replace('|', ' ')}; and set -a at $word",
        "    end",
        '    test "$at" = "$argv[1]"',
        "end",
        "complete -c atk -f",
    ]
    for place in places:
        here = f"complete -c atk -n '__atk_at \"{' '.join(place.path)}\"'"
        plain = [word for word in place.words if not word.startswith("-")]
        lines += [f"{here} -a '{' '.join(plain)}'"] if plain else []
        lines += [f"{here} -F"] if place.files else []
        for option in (word for word in place.words if word.startswith("-")):
            named = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            lines += [f"{here} {named}{_fish_value(place.values.get(option))}"]
    return "\n".join(lines)


def _fish_value(value: str | tuple[str, ...] | None) -> str:
    if value is None:
        return ""
    if value == "files":
        return " -r -F"
    return " -x -a '(__fish_complete_directories)'" if value == "folders" else f" -x -a '{' '.join(value)}'"
