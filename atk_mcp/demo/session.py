"""Calls the server's tools as a client does, and goes where its answers lead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp import Client

Answer = dict[str, Any]
Progress = Callable[[float, float | None, str], None]

WAIT_SECONDS = 60
"""How long one call waits for a run; then the next one does."""


class DemoStopped(Exception):
    """The demo cannot go on; its text says why."""


class Session:
    """A conversation with one server about one project."""

    def __init__(self, client: Client, progress: Progress, when_answered: Callable[[], None]) -> None:
        """Takes a connected client, and what to do with progress and after each answer."""
        self._client = client
        self._progress = progress
        self._when_answered = when_answered

    async def call(self, tool: str, **arguments: Any) -> Answer:  # noqa: ANN401 - any JSON
        """Calls a tool and returns its structured answer.

        Raises:
            DemoStopped: The server refused the call or failed.
        """

        async def report(progress: float, total: float | None, message: str | None) -> None:
            self._progress(progress, total, message or "")

        result = await self._client.call_tool(tool, arguments, progress_callback=report)
        self._when_answered()
        if result.is_error or not isinstance(result.structured_content, dict):
            said = " ".join(getattr(part, "text", "") for part in result.content)
            raise DemoStopped(f"{tool} was refused: {said}")
        return result.structured_content

    async def follow(self, answer: Answer, tool: str, **supplied: Any) -> Answer:  # noqa: ANN401 - any JSON
        """Makes the call of `tool` that an answer offers as next, with what only the caller can supply.

        Raises:
            DemoStopped: The answer does not lead there.
        """
        for step in answer["next"]:
            if step["tool"] == tool:
                return await self.call(tool, **{**step["arguments"], **supplied})
        offered = ", ".join(step["tool"] for step in answer["next"]) or "nothing"
        raise DemoStopped(f"the answer {answer['message']!r} should lead on to {tool}, and offers {offered}")

    async def finished(self, run: Answer) -> Answer:
        """Waits until a run is over and returns the last answer about it.

        Raises:
            DemoStopped: It ended without all of its attempts.
        """
        while run["status"] == "running":
            run = await self.follow(run, "wait_for_batch", wait_seconds=WAIT_SECONDS)
        if run["status"] != "sealed":
            raise DemoStopped(" ".join((run["message"], *run["notes"])))
        return run

    async def read(self, record_id: str, field: str | None = None) -> Any:  # noqa: ANN401 - any JSON
        """Returns a stored object, or a field of it; a long list whole, page by page."""
        wanted = {"record_id": record_id, **({"field": field} if field else {})}
        answer = await self.call("read_record", **wanted)
        value = answer["value"]
        while cursor := answer.get("next_cursor"):
            answer = await self.call("read_record", **wanted, cursor=cursor)
            value += answer["value"]
        return value
