"""The tools as clients see them: built from the operations, kept in `tools.json`, served from there.

python -m atk_mcp.snapshot write|check
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atk_mcp.toolsets import Offer, of_group
from atk_mcp.toolsets import offer as offer_of

if TYPE_CHECKING:
    from operations.definition import Operation

PATH = os.path.join(os.path.dirname(os.path.realpath(__file__)), "tools.json")


def tool(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Returns one operation as the list shows it: as short as its budget needs."""
    from atk_mcp.schemas import input_schema  # noqa: PLC0415 - the server reads the file instead
    from atk_mcp.trimming import published  # noqa: PLC0415 - as above

    return published(whole(operation), input_schema(operation.request, brief=True))


def whole(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Returns one operation as an MCP tool with all that there is to say, all four annotations said."""
    from atk_mcp.schemas import input_schema, output_schema  # noqa: PLC0415 - the server reads the file instead
    from operations.definition import Effect  # noqa: PLC0415 - the server reads the file instead

    return {
        "name": operation.name,
        "title": operation.title,
        "description": operation.description,
        "inputSchema": input_schema(operation.request),
        "outputSchema": output_schema(operation.response),
        "annotations": {
            "readOnlyHint": operation.effect is Effect.READ,
            "destructiveHint": operation.effect is Effect.WORKTREE,
            "idempotentHint": operation.idempotent,
            "openWorldHint": operation.effect is Effect.RUN,
        },
    }


def tools(operations: Mapping[str, Operation[Any, Any]]) -> list[dict[str, Any]]:
    """Returns every operation as a tool, by name, so that the list is the same whoever asks."""
    return [tool(operations[name]) for name in sorted(operations)]


def render(operations: Mapping[str, Operation[Any, Any]]) -> bytes:
    """Returns the bytes of the snapshot, in lines that a reviewer can read as a diff."""
    reading = {name: list(o.reads_without) for name, o in sorted(operations.items()) if o.reads_without}
    record = {"toolsets": toolsets_of(operations), "reads_without": reading, "tools": tools(operations)}
    return (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode()


def toolsets_of(operations: Mapping[str, Operation[Any, Any]]) -> dict[str, list[str]]:
    """Returns the names of the tools in each set, both by name."""
    found: dict[str, list[str]] = {}
    for name in sorted(operations):
        found.setdefault(of_group(operations[name].group), []).append(name)
    return dict(sorted(found.items()))


def load(path: str = PATH) -> list[dict[str, Any]]:
    """Returns the tools on record."""
    listed: list[dict[str, Any]] = _read(path)["tools"]
    return listed


def load_toolsets(path: str = PATH) -> dict[str, list[str]]:
    """Returns the sets on record: the names of the tools in each."""
    sets: dict[str, list[str]] = _read(path)["toolsets"]
    return sets


def offer(*, toolsets: str | None = None, read_only: bool = False) -> Offer:
    """Returns what a server of the tools on record offers.

    Raises:
        UnknownToolset: `toolsets` names one that there is not.
    """
    record = _read(PATH)
    tools, sets, reading = record["tools"], record["toolsets"], record["reads_without"]
    return offer_of(tools, sets, toolsets=toolsets, read_only=read_only, reads_without=reading)


def _read(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        record: dict[str, Any] = json.loads(file.read())
    return record


def near(name: str, names: Iterable[str]) -> list[str]:
    """Returns the names that someone who wrote `name` may have meant, the likeliest first."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    return get_close_matches(name.strip().lower().replace("-", "_"), sorted(names), 3)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the snapshot, or checks that it is the one the operations give."""
    from operations.registry import all_operations  # noqa: PLC0415 - importing this module loads no operation

    parser = argparse.ArgumentParser(prog="python -m atk_mcp.snapshot", description=str(__doc__).splitlines()[0])
    parser.add_argument("mode", choices=("write", "check"), help="write tools.json, or exit 1 when it is not current")
    wanted = render(all_operations())
    if parser.parse_args(argv).mode == "write":
        with open(PATH, "wb") as file:
            file.write(wanted)
        return 0
    current = os.path.exists(PATH)
    if current:
        with open(PATH, "rb") as file:
            current = file.read() == wanted
    if not current:
        sys.stderr.write("atk_mcp/tools.json is not what the operations give: run scripts/generate, read the diff.\n")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
