"""A model that is played by code: each of its calls is chosen from what it was shown of the ones before."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.codexlab.script import (
    ScriptError,
    ToolResult,
    build_item,
    code_mode_tool,
    message_item,
    tool_results,
)
from tests.support.codexlab.stub import ResponsesStub, events_of

PATIENCE_S = 600
"""Seconds after which one side gives up on the other; far beyond what anything takes."""


_RUNNING = re.compile(r"Script running with cell ID (\S+)")


class ConversationOver(Exception):
    """Codex asks no more: what the player wanted to call cannot be called."""


class Conversation:
    """One call at a time, between a player in a thread of its own and the model's stub."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, dict[str, Any], ToolResult]] = []
        """Every call of an MCP tool with what the model was shown for it."""
        self._asked: queue.Queue[dict[str, Any]] = queue.Queue()
        self._answered: queue.Queue[ToolResult | None] = queue.Queue()

    # -- the player's side
    def call(self, server: str, tool: str, arguments: dict[str, Any]) -> ToolResult:
        """Has the model call a tool and returns what it is shown.

        Raises:
            ConversationOver: Codex has ended.
        """
        result = self.step({"call": {"server": server, "tool": tool, "arguments": arguments}})
        self.shown.append((tool, arguments, result))
        return result

    def step(self, step: dict[str, Any]) -> ToolResult:
        """Has the model do any other step of a script that has a result, and returns what it is shown.

        Raises:
            ConversationOver: Codex has ended.
        """
        self._asked.put(step)
        result = self._answered.get(timeout=PATIENCE_S)
        if result is None:
            raise ConversationOver(str(step)[:200])
        return result

    def say(self, text: str) -> None:
        """Ends the model's turn with a message."""
        self._asked.put({"say": text})

    # -- the stub's side
    def next_step(self) -> dict[str, Any]:
        return self._asked.get(timeout=PATIENCE_S)

    def show(self, result: ToolResult | None) -> None:
        self._answered.put(result)


class LiveStub(ResponsesStub):
    """The stub of a model whose turns are decided while they are played."""

    def __init__(self, play: Callable[[Conversation], str], record_dir: str | Path | None = None) -> None:
        """Takes the player: it makes its calls and returns the model's last words."""
        super().__init__({"turns": []}, record_dir)
        self.conversation = Conversation()
        self._play = play
        self._pending = ""
        self._over = False
        self._player = threading.Thread(target=self._perform, daemon=True)

    def _perform(self) -> None:
        try:
            last = self._play(self.conversation)
        except ConversationOver as ended:
            self.error(f"Codex ended before {ended} was called")
        except BaseException as problem:  # noqa: BLE001 - whatever it is, it is the run's error
            self.error(f"the player failed: {problem!r}")
            self.conversation.say(f"STUB ERROR: {problem!r}")
        else:
            self.conversation.say(last)

    def start(self) -> LiveStub:
        super().start()
        self._player.start()
        return self

    def stop(self) -> None:
        self.conversation.show(None)
        self._player.join(timeout=PATIENCE_S)
        super().stop()

    @property
    def turns_left(self) -> int:
        return 0 if self._over else 1

    def _waiting(self, request: dict[str, Any], cell: str, number: int) -> dict[str, Any]:
        """Returns the step of a model in code mode whose script takes long: the player is shown its end."""
        self._pending = f"call_{number}"
        _, namespace = code_mode_tool(request) or ("", None)
        wait = {"name": "wait", "arguments": {"cell_id": cell}} | ({"namespace": namespace} if namespace else {})
        return build_item({"function": wait}, request, self._pending)

    def answer(self, request: dict[str, Any]) -> tuple[int, list[dict[str, Any]] | dict[str, Any]]:
        """Records a model request, hands the player what it shows, and returns the player's next step."""
        number = self.keep(request)
        if self._pending:
            results = tool_results(request)
            if self._pending not in results:
                self.error(f"request {number} does not show the result of {self._pending}")
                return 200, events_of(number, [message_item("STUB ERROR: a result is missing")])
            shown = results[self._pending]
            if cell := _RUNNING.match(shown.text):
                return 200, events_of(number, [self._waiting(request, cell[1], number)])
            self.conversation.show(shown)
        self._pending = f"call_{number}"
        step = self.conversation.next_step()
        self._over = "say" in step
        try:
            return 200, events_of(number, [build_item(step, request, self._pending)])
        except ScriptError as problem:
            self.error(str(problem))
            return 200, events_of(number, [message_item(f"STUB ERROR: {problem}")])
