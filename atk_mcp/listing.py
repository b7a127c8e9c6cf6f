"""`atk tools`: tells of the tools as clients see them, of their sets, and of what each costs a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atk_mcp import results, snapshot, toolsets
from atk_mcp.codex_schema import BUDGET, sanitised, size
from atk_mcp.describing import described
from atk_mcp.terminal import say

if TYPE_CHECKING:
    from operations.definition import Operation

Tool = Mapping[str, Any]


def sizes(tool: Tool) -> dict[str, int]:
    """Returns what a tool takes, in bytes of JSON.

    `definition` is the whole of it in `tools/list`; `input` and `output` are its schemas; `input_codex` is what Codex
    passes on of the former.
    """
    return {
        "definition": size(tool),
        "input": size(tool["inputSchema"]),
        "input_codex": size(sanitised(tool["inputSchema"])),
        "output": size(tool.get("outputSchema", {})),
    }


def say_toolsets(*, as_json: bool) -> None:
    """Prints the sets of tools, what each is for, and which are offered unless a server is told otherwise."""
    sets = snapshot.load_toolsets()
    usual = toolsets.by_default(tuple(sets))
    if as_json:
        told = [
            {"name": name, "about": toolsets.ABOUT.get(name, ""), "default": name in usual, "tools": tools}
            for name, tools in sets.items()
        ]
        say(results.compact({"toolsets": told}))
        return
    for name, tools in sets.items():
        say(f"{name}: {toolsets.ABOUT.get(name, '')}".rstrip(": "))
        say(f"  {', '.join(tools)}")
    say(f"Offered unless told otherwise: {', '.join(usual)}. Choose with `atk-mcp --toolsets A,B` or `--toolsets all`.")


def say_all(*, as_json: bool) -> None:
    """Prints every tool in one line; as JSON with its set, annotations and sizes."""
    tools, of = snapshot.load(), _set_of_each()
    if as_json:
        told = [
            {
                "name": tool["name"],
                "toolset": of.get(tool["name"]),
                "summary": _summary(tool),
                "annotations": tool["annotations"],
                "bytes": sizes(tool),
            }
            for tool in tools
        ]
        say(results.compact({"tools": told}))
        return
    width = max((len(tool["name"]) for tool in tools), default=0)
    for tool in tools:
        say(f"{tool['name']:{width}}  {_summary(tool)}")


def say_one(tool: Tool, operation: Operation[Any, Any], *, as_json: bool = False) -> None:
    """Prints all there is to know of a tool: its set, annotations, schemas, sizes and calls worth showing.

    JSON has the schemas as clients see them; a person is shown those of the operation, where nothing is left out.
    """
    from atk_mcp.schemas import input_schema, output_schema  # noqa: PLC0415 - the lists need no models

    taken, of = sizes(tool), _set_of_each().get(tool["name"])
    if as_json:
        shown = [{"summary": example.summary, "arguments": dict(example.arguments)} for example in operation.examples]
        say(results.compact({**tool, "toolset": of, "bytes": taken, "examples": shown}))
        return
    whole = {"inputSchema": input_schema(operation.request), "outputSchema": output_schema(operation.response)}
    say(described({**tool, **whole, "description": operation.description}, operation.examples))
    say("")
    say(f"Toolset: {of}" if of else "Toolset: none")
    say(
        f"Size: {taken['definition']} bytes in the list; input schema {taken['input']}, {taken['input_codex']} as "
        f"Codex passes it on (from {BUDGET} it drops the descriptions); output schema {taken['output']}"
    )


def _set_of_each() -> dict[str, str]:
    return {tool: name for name, tools in snapshot.load_toolsets().items() for tool in tools}


def _summary(tool: Tool) -> str:
    first: str = tool["description"].splitlines()[0]
    return first
