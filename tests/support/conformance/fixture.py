"""The product's own server with what the MCP conformance suite calls by name added to it.

    python -m tests.support.conformance.fixture                    # over stdio
    python -m tests.support.conformance.fixture --http TOKEN_FILE  # over HTTP, at any free port

Names, texts and shapes are the suite's (@modelcontextprotocol/conformance 0.2.0-alpha.12); they mean nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import secrets
import struct
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp.types as t
from mcp import MCPError

from atk_mcp import server
from atk_mcp.offering import Additions
from atk_mcp.pipes import Pipes

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")
WAV = (
    b"RIFF"
    + struct.pack("<I", 38)
    + b"WAVEfmt "
    + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    + b"data"
    + struct.pack("<I", 2)
    + b"\x80\x80"
)
COMPLETE = {"resultType": "complete"}
KEY = secrets.token_bytes(32)
"""Of this process: what a client sends back as request state was made here."""

Answer = Callable[[Any, Any], Awaitable[dict[str, Any]]]

TOOLS: dict[str, tuple[Mapping[str, Any], Answer]] = {}
PROMPTS: dict[str, tuple[Mapping[str, Any], Answer]] = {}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image() -> dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}


def embedded(uri: str, mime: str, words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


def said(*content: dict[str, Any], error: bool = False) -> dict[str, Any]:
    return {"content": list(content), "isError": error}


def tool(name: str, schema: Mapping[str, Any] | None = None) -> Callable[[Answer], Answer]:
    def define(answer: Answer) -> Answer:
        shape = schema or {"type": "object", "properties": {}}
        TOOLS[name] = ({"name": name, "description": name, "inputSchema": shape}, answer)
        return answer

    return define


def always(name: str, *content: dict[str, Any], error: bool = False) -> None:
    async def answer(_: Any, __: Any) -> dict[str, Any]:
        return said(*content, error=error)

    tool(name)(answer)


always("test_simple_text", text("This is a simple text response for testing."))
always("test_image_content", image())
always("test_audio_content", {"type": "audio", "data": base64.b64encode(WAV).decode(), "mimeType": "audio/wav"})
always(
    "test_embedded_resource",
    embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."),
)
always(
    "test_multiple_content_types",
    text("Multiple content types test:"),
    image(),
    embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
)
always("test_error_handling", text("This tool intentionally returns an error for testing"), error=True)


@tool("test_tool_with_logging")
async def _logs(context: Any, _: Any) -> dict[str, Any]:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", words, related_request_id=context.request_id)
        await asyncio.sleep(0.05)
    return said(text("done"))


@tool("test_logging_tool")
async def _log(context: Any, _: Any) -> dict[str, Any]:
    await context.session.send_log_message("info", "x", related_request_id=context.request_id)
    return said(text("done"))


@tool("test_tool_with_progress")
async def _progress(context: Any, _: Any) -> dict[str, Any]:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100, f"{done}%")
        await asyncio.sleep(0.05)
    return said(text("done"))


def _string(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


@tool("test_sampling", _string("prompt"))
async def _sampling(context: Any, params: Any) -> dict[str, Any]:
    asked = t.SamplingMessage(role="user", content=t.TextContent(type="text", text=params.arguments["prompt"]))
    found = await context.session.create_message([asked], max_tokens=100, related_request_id=context.request_id)
    return said(text(f"LLM response: {found.content.text}"))


async def _asked(context: Any, message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    found = await context.session.elicit_form(message, dict(schema), context.request_id)
    return said(text(f"Elicitation completed: action={found.action}, content={json.dumps(found.content)}"))


USER = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}


@tool("test_elicitation", _string("message"))
async def _elicitation(context: Any, params: Any) -> dict[str, Any]:
    found = await context.session.elicit_form(params.arguments["message"], USER, context.request_id)
    return said(text(f"User response: action={found.action}, content={json.dumps(found.content)}"))


DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
NTH = ("First", "Second", "Third")
ENUMS = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {
        "type": "string",
        "oneOf": [{"const": f"value{i}", "title": f"{name} Option"} for i, name in enumerate(NTH, 1)],
    },
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {
        "type": "array",
        "items": {"anyOf": [{"const": f"value{i}", "title": f"{name} Choice"} for i, name in enumerate(NTH, 1)]},
    },
}
for _name, _fields in (
    ("test_elicitation_sep1034_defaults", DEFAULTS),
    ("test_elicitation_sep1330_enums", ENUMS),
):
    _schema = {"type": "object", "properties": _fields, "required": []}

    async def _reviewed(context: Any, _: Any, schema: Mapping[str, Any] = _schema) -> dict[str, Any]:
        return await _asked(context, "Please review", schema)

    tool(_name)(_reviewed)


@tool("test_missing_capability")
async def _missing(context: Any, _: Any) -> dict[str, Any]:
    declared = context.session.client_capabilities
    if declared is None or declared.sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is required", data)
    return said(text("ok"))


# ---- requests that need input, since 2026-07-28 ------------------------------------------------------------------


def form(message: str, **properties: str) -> dict[str, Any]:
    shape = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": shape}}


def sample(message: str, tokens: int = 100) -> dict[str, Any]:
    content = {"role": "user", "content": text(message)}
    return {"method": "sampling/createMessage", "params": {"messages": [content], "maxTokens": tokens}}


ROOTS = {"method": "roots/list"}


def ask(state: str | None = None, **requests: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"resultType": "input_required"}
    if requests:
        found["inputRequests"] = requests
    return found | ({"requestState": sealed(state)} if state else {})


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), 'sha256').hexdigest()}"


def state_of(params: Any) -> str | None:
    """Returns the state that was sealed here, or None where nothing or something else came back.

    Raises:
        MCPError: It was tampered with.
    """
    if params.request_state is None:
        return None
    state, _, _ = params.request_state.partition(".")
    if not hmac.compare_digest(sealed(state), params.request_state):
        raise MCPError(t.INVALID_PARAMS, "requestState was not made by this server")
    return state


def given(params: Any, key: str, name: str) -> Any:
    response = (params.input_responses or {}).get(key)
    content = response.content if getattr(response, "action", None) == "accept" else None
    return content.get(name) if isinstance(content, dict) else None


async def _greets(_: Any, params: Any) -> dict[str, Any]:
    name = given(params, "user_name", "name")
    if isinstance(name, str):
        return said(text(f"Hello, {name}!"))
    return ask(user_name=form("What is your name?", name="string"))


tool("test_input_required_result_elicitation")(_greets)
tool("test_streaming_elicitation")(_greets)


@tool("test_input_required_result_sampling")
async def _samples(_: Any, params: Any) -> dict[str, Any]:
    found = (params.input_responses or {}).get("capital_question")
    if found is None:
        return ask(capital_question=sample("What is the capital of France?"))
    return said(text(found.content.text))


@tool("test_input_required_result_list_roots")
async def _roots(_: Any, params: Any) -> dict[str, Any]:
    found = (params.input_responses or {}).get("client_roots")
    if found is None:
        return ask(client_roots=ROOTS)
    return said(text("roots: " + ", ".join(str(root.uri) for root in found.roots)))


async def _stateful(_: Any, params: Any) -> dict[str, Any]:
    if params.input_responses and state_of(params) == "s1":
        return said(text("state-ok"))
    return ask("s1", confirm=form("Please confirm", ok="boolean"))


tool("test_input_required_result_request_state")(_stateful)
tool("test_input_required_result_tampered_state")(_stateful)


@tool("test_input_required_result_multiple_inputs")
async def _several(_: Any, params: Any) -> dict[str, Any]:
    if {"user_name", "greeting", "client_roots"} <= set(params.input_responses or {}):
        return said(text("all inputs received"))
    name = form("What is your name?", name="string")
    return ask("m1", user_name=name, greeting=sample("Generate a greeting", 50), client_roots=ROOTS)


@tool("test_input_required_result_multi_round")
async def _rounds(_: Any, params: Any) -> dict[str, Any]:
    if state_of(params) == "round-2" and given(params, "step2", "color"):
        return said(text("done"))
    if state_of(params) == "round-1" and given(params, "step1", "name"):
        return ask("round-2", step2=form("Step 2: What is your favorite color?", color="string"))
    return ask("round-1", step1=form("Step 1: What is your name?", name="string"))


@tool("test_input_required_result_capabilities")
async def _capable(context: Any, params: Any) -> dict[str, Any]:
    if params.input_responses:
        return said(text("ok"))
    declared = context.session.client_capabilities
    requests = {}
    if declared and declared.sampling is not None:
        requests["s"] = sample("hi")
    if declared and declared.elicitation is not None:
        requests["e"] = form("name?", name="string")
    return ask(**requests) if requests else said(text("nothing to ask"))


always("test_trigger_tool_change", text("ok"))
always("test_trigger_prompt_change", text("ok"))
always("json_schema_2020_12_tool", text("ok"))
TOOLS["json_schema_2020_12_tool"][0]["inputSchema"].update(  # type: ignore[index]
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)


# ---- resources and prompts -----------------------------------------------------------------------------------------


def _resource(name: str, mime: str) -> dict[str, Any]:
    return {"uri": f"test://{name}", "name": name, "mimeType": mime, "description": name}


RESOURCES = [
    _resource("static-text", "text/plain"),
    _resource("static-binary", "image/png"),
    _resource("watched-resource", "text/plain"),
]
TEMPLATES = [{"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}]


def reading(uri: str) -> Answer | None:
    if not uri.startswith("test://"):
        return None
    parts = uri.removeprefix("test://").split("/")
    if parts[0] == "template" and parts[2:] == ["data"]:
        value = {"id": parts[1], "templateTest": True, "data": f"Data for ID: {parts[1]}"}
        content: dict[str, Any] = {"mimeType": "application/json", "text": json.dumps(value)}
    elif parts == ["static-binary"]:
        content = {"mimeType": "image/png", "blob": base64.b64encode(PNG).decode()}
    elif parts == ["static-text"]:
        content = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
    elif parts == ["watched-resource"]:
        content = {"mimeType": "text/plain", "text": "watched"}
    else:
        return None

    async def answer(_: Any, __: Any) -> dict[str, Any]:
        return {"contents": [{"uri": uri, **content}]}

    return answer


def prompt(name: str, *arguments: str) -> Callable[[Callable[[Any], dict[str, Any]]], None]:
    def define(make: Callable[[Any], dict[str, Any]]) -> None:
        async def answer(_: Any, params: Any) -> dict[str, Any]:
            return make(params)

        about = [{"name": argument, "description": argument, "required": True} for argument in arguments]
        PROMPTS[name] = ({"name": name, "description": name, "arguments": about}, answer)

    return define


def _messages(*content: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": part} for part in content]}


prompt("test_simple_prompt")(lambda _: _messages(text("This is a simple prompt for testing.")))
prompt("test_prompt_with_arguments", "arg1", "arg2")(
    lambda params: _messages(text("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'".format(**params.arguments)))
)
prompt("test_prompt_with_embedded_resource", "resourceUri")(
    lambda params: _messages(
        embedded(params.arguments["resourceUri"], "text/plain", "Embedded resource content for testing."),
        text("Please process the embedded resource above."),
    )
)
prompt("test_prompt_with_image")(lambda _: _messages(image(), text("Please analyze the image above.")))


@prompt("test_input_required_result_prompt")
def _prompt_that_asks(params: Any) -> dict[str, Any]:
    context = given(params, "user_context", "context")
    if context:
        return _messages(text(f"Use {context}"))
    return ask(user_context=form("What context should the prompt use?", context="string"))


async def _nothing(_: Any, __: Any) -> dict[str, Any]:
    return {}  # these methods are gone since 2026-07-28, which alone knows the kinds of results


async def _completion(_: Any, __: Any) -> dict[str, Any]:
    return COMPLETE | {"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": False}}


OTHERS = {
    "completion/complete": (t.CompleteRequestParams, _completion),
    "logging/setLevel": (t.SetLevelRequestParams, _nothing),
    "resources/subscribe": (t.SubscribeRequestParams, _nothing),
    "resources/unsubscribe": (t.UnsubscribeRequestParams, _nothing),
}

ADDITIONS = Additions(
    tools=TOOLS, resources=RESOURCES, templates=TEMPLATES, reading=reading, prompts=PROMPTS, others=OTHERS
)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # logging and sampling are deprecated, and the suite still asks for them
    if sys.argv[1:2] == ["--http"]:
        from atk_mcp import loopback, snapshot
        from atk_mcp.door import listening
        from atk_mcp.tokens import made_or_known

        loopback.run(listening(0), made_or_known(sys.argv[2]), snapshot.offer(), home=True, more=ADDITIONS)
    pipes = Pipes.claim(None)
    pipes.start()
    server.run(pipes, None, more=ADDITIONS)
    sys.exit(0)
