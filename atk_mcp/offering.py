"""Offers resources and prompts on a server: the same facts and Skills, for clients that show them to a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.types import INVALID_PARAMS, GetPromptRequestParams, PaginatedRequestParams, ReadResourceRequestParams

from atk_mcp import prompting, resources
from atk_mcp.calls import Progress

Read = Callable[[str, Mapping[str, Any], Progress], Awaitable[dict[str, Any]]]
"""Runs a reading tool by name with its arguments, and returns its result."""

_COMPLETE = {"resultType": "complete"}


def offer_resources(server: Server[Any], read: Read, names: Collection[str]) -> None:
    """Adds the resources; each is what a reading tool among `names` answers."""

    async def listed(_: ServerRequestContext[Any], __: PaginatedRequestParams) -> dict[str, Any]:
        return {**_COMPLETE, "resources": list(resources.LISTED)}

    async def templates(_: ServerRequestContext[Any], __: PaginatedRequestParams) -> dict[str, Any]:
        return {**_COMPLETE, "resourceTemplates": list(resources.TEMPLATES)}

    async def content(context: ServerRequestContext[Any], params: ReadResourceRequestParams) -> dict[str, Any]:
        found = resources.call_for(params.uri)
        if found is None or found[0] not in names:
            raise MCPError(INVALID_PARAMS, f"There is no resource {params.uri!r}.", {"uri": params.uri})
        result = await read(*found, context.session.report_progress)
        text = result["content"][0]["text"]
        if result["isError"]:
            raise MCPError(INVALID_PARAMS, text, {"uri": params.uri})
        return {**_COMPLETE, "contents": [{"uri": params.uri, "mimeType": resources.MIME, "text": text}]}

    server.add_request_handler("resources/list", PaginatedRequestParams, listed)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, content)


def offer_prompts(server: Server[Any]) -> None:
    """Adds the Skills as prompts."""

    async def listed(_: ServerRequestContext[Any], __: PaginatedRequestParams) -> dict[str, Any]:
        return {**_COMPLETE, "prompts": list(prompting.prompts())}

    async def one(_: ServerRequestContext[Any], params: GetPromptRequestParams) -> dict[str, Any]:
        found = prompting.prompt(params.name, params.arguments or {})
        if found is None:
            known = [known["name"] for known in prompting.prompts()]
            raise MCPError(INVALID_PARAMS, f"There is no prompt {params.name!r}.", {"prompts": known})
        return {**_COMPLETE, **found}

    server.add_request_handler("prompts/list", PaginatedRequestParams, listed)
    server.add_request_handler("prompts/get", GetPromptRequestParams, one)
