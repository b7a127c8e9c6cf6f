"""Plays the demo and writes how large the largest result of each tool was, for the page on what the tools cost.

python -m benchmarks.tool_results [--seed N]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from atk_mcp.demo.loop import Loop
from atk_mcp.demo.repository import make_target
from atk_mcp.demo.session import Answer, Session
from atk_mcp.demo.story import Story
from atk_mcp.pricing import MEASURED
from atk_mcp.trimming import size

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ROUNDED = 100


class Measured(Session):
    """A session that remembers how large each tool's results were."""

    largest: dict[str, int] = defaultdict(int)

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Calls a tool and returns its structured answer."""
        answer = await super().call(tool, **arguments)
        self.largest[tool] = max(self.largest[tool], size(answer))
        return answer


async def _play(root: str, cases: str) -> dict[str, int]:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "atk_mcp"], cwd=root, env={"PYTHONPATH": _HOME, "PYTHONSAFEPATH": "1"}
    )
    async with Client(stdio_client(server)) as client:
        session = Measured(client, lambda *_: None, lambda: None)
        await Loop(session, Story(lambda _: None), root, cases).play(no_op_edit=False)
        await session.call("try_case", input="My parcel is late")
        await session.call("render_round_report", round_id=(await session.call("get_status"))["round"]["round_id"])
    return session.largest


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, default=7, help="which demo")
    with tempfile.TemporaryDirectory(prefix="atk-tools-") as folder:
        root, cases = make_target(os.path.join(folder, "target"), parser.parse_args().seed)
        largest = anyio.run(_play, root, cases)
    rounded = {tool: -(-taken // _ROUNDED) * _ROUNDED for tool, taken in sorted(largest.items())}
    with open(MEASURED, "w", encoding="utf-8") as file:
        file.write(json.dumps(rounded, indent=1) + "\n")


if __name__ == "__main__":
    main()
