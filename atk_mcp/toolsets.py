"""Which tools a server offers: named sets of them, chosen when it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

CORE = "core"
"""The set that is always offered: what every answer and refusal leads on to."""

ALL = "all"
"""Stands for every set that there is."""

OPT_IN = frozenset({"trajectories"})
"""Sets that are offered only when they are named: no Round needs them, and each tool costs every session its tokens."""

ABOUT: Mapping[str, str] = {
    CORE: "set a project up, see what is open, read what is stored; always offered",
    "evidence": "Cases, imports, runs of the agent and what is found in them",
    "judging": "verdicts, and what they say about causes",
    "knowledge": "lessons, and where they apply",
    "reports": "pages for people, and files for CI",
    "rounds": "plans, candidates, comparisons, decisions",
    "trajectories": "what an agent did, step by step; only when named",
}

_OF_GROUP: Mapping[str, str] = {
    "projects": CORE,
    "journal": CORE,
    "datasets": "evidence",
    "assessments": "judging",
    "diagnosis": "judging",
    "candidates": "rounds",
    "validations": "rounds",
}
"""The set of a folder of operations, where it is not named after the folder."""


class UnknownToolset(ValueError):
    """A set was named that there is not."""

    def __init__(self, given: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no toolset {given!r}; there are {', '.join(known)}, and {ALL} for all of them")


def of_group(group: str) -> str:
    """Returns the name of the set that the operations of a folder belong to."""
    return _OF_GROUP.get(group, group)


def chosen(given: str, known: Sequence[str]) -> tuple[str, ...]:
    """Returns the sets that a comma-separated list names, the core among them, in the order of `known`.

    Args:
        given: Names, as a person wrote them. An empty list leaves the core.
        known: The sets that there are.

    Raises:
        UnknownToolset: One of them is none.
    """
    named = {name.strip().lower() for name in given.split(",")} - {""}
    if unknown := sorted(named - {ALL, *known}):
        raise UnknownToolset(unknown[0], known)
    return tuple(name for name in known if name == CORE or name in named or ALL in named)


def by_default(known: Sequence[str]) -> tuple[str, ...]:
    """Returns the sets that a server offers unless it is told otherwise: all but those that have to be named."""
    return tuple(name for name in known if name not in OPT_IN)


class Offer(NamedTuple):
    """The tools of one server, and why others are missing."""

    tools: tuple[Mapping[str, Any], ...]
    """As the list shows them, in the order of their names."""

    left_out: Mapping[str, str]
    """The set of each tool that was not chosen, by name."""

    read_only: bool = False
    withheld: Mapping[str, tuple[str, ...]] = {}
    """Arguments that are left out of a tool, since with them it would change something; by the tool's name."""
    narrowed: tuple[str, ...] = ()
    """The sets on offer, where a person chose them."""

    @property
    def words(self) -> str:
        """What the instructions say of a choice; nothing where none was made."""
        said = f" Offered here: toolsets {', '.join(self.narrowed)}." if self.narrowed else ""
        return said + (" Offered here: only tools that change nothing." if self.read_only else "")

    def why_not(self, name: str) -> str:
        """Returns why a tool that exists is not offered; nothing where it does not exist."""
        if name in self.left_out:
            return f" It is in the toolset {self.left_out[name]}: start the server with it in --toolsets."
        if self.read_only:
            return " This server was started with --read-only and offers only what changes nothing."
        return ""


def offer(
    listed: Sequence[Mapping[str, Any]],
    sets: Mapping[str, Sequence[str]],
    *,
    toolsets: str | None = None,
    read_only: bool = False,
    reads_without: Mapping[str, Sequence[str]] | None = None,
) -> Offer:
    """Returns what a server offers.

    Args:
        listed: Every tool, as clients see it.
        sets: The names of the tools in each set. A tool in none is always offered.
        toolsets: The sets a person chose, as `chosen` takes them. Default: those of `by_default`.
        read_only: Offer only tools that change nothing; wins over all.
        reads_without: Arguments without which a tool changes nothing, by the tool's name.

    Raises:
        UnknownToolset: `toolsets` names one that there is not.
    """
    wanted = by_default(tuple(sets)) if toolsets is None else chosen(toolsets, tuple(sets))
    left_out = {name: chosen_set for chosen_set, names in sets.items() if chosen_set not in wanted for name in names}
    withheld = {name: tuple(fields) for name, fields in (reads_without or {}).items()} if read_only else {}
    on_offer = [tool for tool in listed if tool["name"] not in left_out]
    if read_only:
        on_offer = [_reading(tool, withheld.get(tool["name"], ())) for tool in on_offer]
    return Offer(
        tools=tuple(tool for tool in on_offer if not read_only or tool["annotations"]["readOnlyHint"]),
        left_out=left_out,
        read_only=read_only,
        withheld=withheld,
        narrowed=wanted if toolsets is not None and wanted != tuple(sets) else (),
    )


def _reading(tool: Mapping[str, Any], withheld: Sequence[str]) -> Mapping[str, Any]:
    """Returns a tool without the arguments with which it would change something, said to change nothing."""
    if not withheld:
        return tool
    asked = tool["inputSchema"]
    left = {name: field for name, field in asked["properties"].items() if name not in withheld}
    return {
        **tool,
        "inputSchema": {**asked, "properties": left},
        "annotations": {**tool["annotations"], "readOnlyHint": True, "idempotentHint": True},
    }
