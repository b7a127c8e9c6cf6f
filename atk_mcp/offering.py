"""Offers resources and prompts on a server: the same facts and Skills, for clients that show them to a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    RequestParams,
)

from atk_mcp import prompting, reporting, resources
from atk_mcp.calls import Progress

Read = Callable[[str, Mapping[str, Any], Progress], Awaitable[dict[str, Any]]]
"""Reads what a tool tells, by the tool's name and with its arguments, and returns it as a tool's result."""

_COMPLETE = {"resultType": "complete"}

Answer = Callable[[ServerRequestContext[Any], Any], Awaitable[dict[str, Any]]]
"""Answers a request, from its context and parameters, in the wire's form."""


@dataclass(frozen=True, kw_only=True)
class Additions:
    """Tools, resources and prompts beside the product's own: a server that is examined offers what the examiner calls.

    Each has its definition as the list shows it, and what answers for it. `reading` takes the resources' URIs.
    """

    tools: Mapping[str, tuple[Mapping[str, Any], Answer]] = field(default_factory=dict)
    resources: Sequence[Mapping[str, Any]] = ()
    templates: Sequence[Mapping[str, Any]] = ()
    reading: Callable[[str], Answer | None] = lambda _: None
    prompts: Mapping[str, tuple[Mapping[str, Any], Answer]] = field(default_factory=dict)
    others: Mapping[str, tuple[type[RequestParams], Answer]] = field(default_factory=dict)
    """Further methods, such as `completion/complete`, with the type of their parameters."""


NOTHING = Additions()


def offer_resources(server: Server[Any], read: Read, names: Collection[str], more: Additions = NOTHING) -> None:
    """Adds the resources; each is what a reading tool among `names` answers, or a report."""

    async def listed(_: ServerRequestContext[Any], __: PaginatedRequestParams) -> dict[str, Any]:
        return {**_COMPLETE, "resources": [*resources.LISTED, *more.resources]}

    async def templates(_: ServerRequestContext[Any], __: PaginatedRequestParams) -> dict[str, Any]:
        return {**_COMPLETE, "resourceTemplates": [*resources.TEMPLATES, *more.templates]}

    async def content(context: ServerRequestContext[Any], params: ReadResourceRequestParams) -> dict[str, Any]:
        if (added := more.reading(params.uri)) is not None:
            return _COMPLETE | await added(context, params)
        found = resources.call_for(params.uri)
        is_report = found is not None and found[0] == reporting.TOOL
        if found is None or not (is_report or found[0] in names):
            raise MCPError(INVALID_PARAMS, f"There is no resource {params.uri!r}.", {"uri": params.uri})
        result = await read(*found, context.session.report_progress)
        text = result["content"][0]["text"]
        if result["isError"]:
            raise MCPError(INVALID_PARAMS, text, {"uri": params.uri})
        mime = reporting.MIME if is_report else resources.MIME
        shown = reporting.text_of(result) if is_report else text
        return {**_COMPLETE, "contents": [{"uri": params.uri, "mimeType": mime, "text": shown}]}

    server.add_request_handler("resources/list", PaginatedRequestParams, listed)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, content)


def offer_prompts(server: Server[Any], more: Additions = NOTHING) -> None:
    """Adds the Skills as prompts."""

    async def listed(_: ServerRequestContext[Any], __: PaginatedRequestParams) -> dict[str, Any]:
        return {**_COMPLETE, "prompts": [*prompting.prompts(), *(about for about, _ in more.prompts.values())]}

    async def one(context: ServerRequestContext[Any], params: GetPromptRequestParams) -> dict[str, Any]:
        if params.name in more.prompts:
            return _COMPLETE | await more.prompts[params.name][1](context, params)
        found = prompting.prompt(params.name, params.arguments or {})
        if found is None:
            known = [known["name"] for known in prompting.prompts()]
            raise MCPError(INVALID_PARAMS, f"There is no prompt {params.name!r}.", {"prompts": known})
        return {**_COMPLETE, **found}

    server.add_request_handler("prompts/list", PaginatedRequestParams, listed)
    server.add_request_handler("prompts/get", GetPromptRequestParams, one)
