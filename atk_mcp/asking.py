"""Puts a question to the person behind an MCP client: by the client's own dialog, in both eras of the protocol.

Sessions up to 2025-11-25 are asked while the call waits. Since 2026-07-28 a server sends no requests: the call is
answered with the question, and made again by the client with the answer.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import anyio
import anyio.from_thread
from mcp import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.types import CallToolRequestParams

    from operations.confirming import Answer, Ask, Question

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "allow": {"type": "boolean", "title": "Allow it", "description": "Yes: go on. No: nothing is done."},
    },
    "required": ["allow"],
}
"""A field that has to be set: some clients accept a form without fields by themselves."""

MULTI_ROUND_TRIP = "2026-07-28"

GONE = "atk.gone"
"""Where the state of a request over HTTP has the event that its connection is lost."""


class AskFirst(Exception):
    """The call ends here with a question; the client makes it again with the answer."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.text)
        self.question = question


def asker(context: ServerRequestContext[Any], params: CallToolRequestParams) -> Ask | None:
    """Returns how to ask the person behind this call, or None where the client has no dialog for it."""
    declared = context.session.client_capabilities
    dialog = declared.elicitation if declared is not None else None
    if dialog is None or (dialog.form is None and dialog.url is not None):
        return None
    if context.protocol_version >= MULTI_ROUND_TRIP:
        given = params.input_responses or {}

        def ask_next_time(question: Question) -> Answer:
            response = given.get(_key(question))
            if not isinstance(response, ElicitResult):
                raise AskFirst(question)
            return _answer(response)

        return ask_next_time

    def ask_now(question: Question) -> Answer:
        try:
            return anyio.from_thread.run(_asked, context, question)
        except CancelledError:  # the client gave the call up
            return "cancel"

    return ask_now


async def _asked(context: ServerRequestContext[Any], question: Question) -> Answer:
    """Asks until there is an answer, or nobody any more who could be told what came of it."""
    answer: Answer = "cancel"
    gone: Any = context.request.scope["state"].get(GONE) if context.request is not None else None
    async with anyio.create_task_group() as tasks:

        async def leave() -> None:
            await gone.wait()
            tasks.cancel_scope.cancel()

        if gone is not None:
            tasks.start_soon(leave)
        try:
            answer = _answer(await context.session.elicit_form(question.text, SCHEMA, context.request_id))
        except MCPError:  # it declared a dialog and does not have it, or has hung up
            answer = "cancel"
        tasks.cancel_scope.cancel()
    return answer


def input_required(question: Question) -> dict[str, Any]:
    """Returns the result of a call that goes on once the person has answered."""
    request = ElicitRequest(params=ElicitRequestFormParams(message=question.text, requested_schema=SCHEMA))
    asked = request.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {"resultType": "input_required", "inputRequests": {_key(question): asked}}


def _key(question: Question) -> str:
    """Names the question in full: an answer to it is an answer to no other."""
    return f"allow-{question.digest}"


def _answer(result: ElicitResult) -> Answer:
    if result.action != "accept":
        return result.action
    return "accept" if (result.content or {}).get("allow") is True else "decline"
