"""The scripted model: reads what Codex sent and turns the steps of a script into a model's output.

A script is `{"turns": [TURN, ...]}`; a turn answers one model request and is `{"steps": [STEP, ...]}` or a
fault `{"http_status": 500}`. A step is one of

    {"call": {"server", "tool", "arguments"}, "id"?}   an MCP tool, over the surface that the request offers
    {"function": {"name", "namespace"?, "arguments"}}  any function call
    {"javascript": "code"}, {"tool_search": {...}}     for models that have such tools
    {"say": "text"}, {"raw": {...}}                    a message, or an output item verbatim

Texts may hold `${ID}` (an earlier tool result) or `${ID:path.0.field}` (a value in it).
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from typing import Any

OUTPUT_ITEM_TYPES = ("function_call_output", "custom_tool_call_output", "tool_search_output")
_WALL_TIME_PREFIX = re.compile(r"\A(?:Script (?:completed|failed)[^\n]*\n)?Wall time:? [0-9.]+ seconds\nOutput:\n*")
_SUBSTITUTION = re.compile(r"\$\{([A-Za-z0-9_.-]+?)(?::([^}]*))?\}")


class ScriptError(Exception):
    """The script cannot be played against this request (bad script, or tool not offered)."""


# --------------------------------------------------------------------------
# Reading what Codex sent
# --------------------------------------------------------------------------


def sanitize(name: str) -> str:
    """Mirror of Codex's model-visible name sanitising: [A-Za-z0-9_] stay, others become _."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def mcp_namespace(server: str) -> str:
    return "mcp__" + sanitize(server)


def offered_tools(request: dict) -> list[dict]:
    """All tool declarations of a request: top-level ``tools`` and ``additional_tools`` items."""
    tools = list(request.get("tools") or [])
    for item in request.get("input") or []:
        if item.get("type") in ("additional_tools", "tool_search_output"):
            tools.extend(item.get("tools") or [])
    return tools


def offered_namespace(request: dict, namespace: str) -> dict[str, dict]:
    """Functions of one namespace, by name. Empty when the namespace is not offered directly."""
    found: dict[str, dict] = {}
    for tool in offered_tools(request):
        if tool.get("type") == "namespace" and tool.get("name") == namespace:
            found.update({fn["name"]: fn for fn in tool.get("tools") or []})
    return found


def request_text(request: dict) -> str:
    """All message text of a request, joined: what the model can read."""
    parts: list[str] = []
    if isinstance(request.get("instructions"), str):
        parts.append(request["instructions"])
    for item in request.get("input") or []:
        if item.get("type") == "message":
            parts.extend(c.get("text", "") for c in item.get("content") or [] if isinstance(c, dict))
    return "\n".join(parts)


def deferred_namespaces(request: dict) -> dict[str, str]:
    """Namespaces Codex only announces by name (tool_search and code-mode models)."""
    found: dict[str, str] = {}
    for block in re.findall(r"Deferred tool namespaces:\n(.*?)\n?</tools>", request_text(request), re.DOTALL):
        for line in block.splitlines():
            match = re.match(r"- (\S+?)(?:: (.*))?$", line)
            if match:
                found[match.group(1)] = match.group(2) or ""
    return found


def code_mode_tool(request: dict) -> tuple[str, str | None] | None:
    """(name, namespace) of the JavaScript ``exec`` tool when the model runs in code mode."""
    for tool in offered_tools(request):
        if tool.get("type") == "custom" and tool.get("name") == "exec":
            return "exec", None
        if tool.get("type") == "namespace":
            for inner in tool.get("tools") or []:
                if inner.get("type") == "custom" and inner.get("name") == "exec":
                    return "exec", tool["name"]
    return None


def surface_of(request: dict, server: str, tool: str) -> str | None:
    """How an MCP tool reaches the model: 'direct', 'code', 'deferred', or None (not offered)."""
    namespace = mcp_namespace(server)
    if sanitize(tool) in offered_namespace(request, namespace):
        return "direct"
    if namespace in deferred_namespaces(request):
        return "code" if code_mode_tool(request) else "deferred"
    return None


@dataclass
class ToolResult:
    """One tool output as the model sees it."""

    call_id: str
    item_type: str
    text: str
    parts: list[dict]

    @property
    def payload_text(self) -> str:
        """The text without Codex's 'Wall time ... Output:' header."""
        return _WALL_TIME_PREFIX.sub("", self.text, count=1)

    @property
    def json(self) -> Any:
        """Parsed payload, or None. Code-mode CallToolResult objects are unwrapped."""
        try:
            value = json.loads(self.payload_text)
        except ValueError:
            return None
        if isinstance(value, dict) and isinstance(value.get("content"), list):
            if value.get("structuredContent") is not None:
                return value["structuredContent"]
            texts = [c.get("text", "") for c in value["content"] if c.get("type") == "text"]
            try:
                return json.loads("\n".join(texts))
            except ValueError:
                return None
        return value


def tool_results(request: dict) -> dict[str, ToolResult]:
    """Tool outputs contained in a request, by call id (a later one wins)."""
    results: dict[str, ToolResult] = {}
    for item in request.get("input") or []:
        if item.get("type") not in OUTPUT_ITEM_TYPES:
            continue
        output = item.get("output", item.get("tools"))
        if isinstance(output, str):
            parts, text = [{"type": "input_text", "text": output}], output
        elif isinstance(output, list):
            parts = output
            text = "\n".join(p.get("text", "") for p in parts if p.get("type") == "input_text")
            if item["type"] == "tool_search_output":
                text = json.dumps(output)
        else:
            parts, text = [], ""
        results[item.get("call_id", "")] = ToolResult(item.get("call_id", ""), item["type"], text, parts)
    return results


# --------------------------------------------------------------------------
# The script
# --------------------------------------------------------------------------


def _lookup(value: Any, path: str) -> Any:
    for key in [k for k in path.split(".") if k]:
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ScriptError(f"no {path!r} in tool result {value!r:.200}") from None
    return value


def substitute(value: Any, results: dict[str, ToolResult]) -> Any:
    """Replace ``${call_id}`` / ``${call_id:path.to.0.field}`` by earlier tool results."""
    if isinstance(value, dict):
        return {k: substitute(v, results) for k, v in value.items()}
    if isinstance(value, list):
        return [substitute(v, results) for v in value]
    if not isinstance(value, str):
        return value

    def resolve(match: re.Match) -> Any:
        call_id, path = match.group(1), match.group(2)
        if call_id not in results:
            raise ScriptError(f"script refers to ${{{call_id}}} but there is no such tool result yet")
        result = results[call_id]
        if path is None:
            return result.payload_text
        if result.json is None:
            raise ScriptError(f"result of {call_id} is not JSON: {result.payload_text[:200]!r}")
        return _lookup(result.json, path)

    whole = _SUBSTITUTION.fullmatch(value)
    if whole:
        return resolve(whole)
    return _SUBSTITUTION.sub(lambda m: str(resolve(m)), value)


def message_item(text: str) -> dict:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _mcp_call_item(spec: dict, request: dict, call_id: str, arguments: Any) -> dict:
    server, tool = spec["server"], spec["tool"]
    namespace, name = mcp_namespace(server), sanitize(tool)
    surface = spec.get("surface") or surface_of(request, server, tool)
    if surface is None:
        raise ScriptError(
            f"MCP tool {server}/{tool} is not offered to the model in this request "
            f"(direct: {sorted(offered_namespace(request, namespace))}, "
            f"deferred: {sorted(deferred_namespaces(request))})"
        )
    if surface in ("direct", "deferred"):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return {"type": "function_call", "namespace": namespace, "name": name, "arguments": text, "call_id": call_id}
    if surface == "code":
        exec_tool = code_mode_tool(request)
        if exec_tool is None:
            raise ScriptError("surface 'code' asked for, but the request has no exec tool")
        js_args = arguments if isinstance(arguments, str) else json.dumps(arguments)
        code = f"const r = await tools.{namespace}__{name}({js_args});\ntext(JSON.stringify(r));"
        return _exec_item(code, exec_tool, call_id)
    raise ScriptError(f"unknown surface {surface!r}")


def _exec_item(code: str, exec_tool: tuple[str, str | None], call_id: str) -> dict:
    item = {"type": "custom_tool_call", "name": exec_tool[0], "input": code, "call_id": call_id}
    if exec_tool[1]:
        item["namespace"] = exec_tool[1]
    return item


def build_item(step: dict, request: dict, call_id: str) -> dict:
    """Turn one script step into one Responses output item."""
    kinds = [k for k in ("say", "call", "function", "javascript", "tool_search", "raw") if k in step]
    if len(kinds) != 1:
        raise ScriptError(f"a step needs exactly one of say/call/function/javascript/tool_search/raw: {step}")
    kind = kinds[0]
    results = tool_results(request)
    spec = substitute(copy.deepcopy(step[kind]), results)
    if kind == "say":
        return message_item(spec)
    if kind == "raw":
        return spec
    call_id = step.get("id", call_id)
    if kind == "call":
        return _mcp_call_item(spec, request, call_id, spec.get("arguments", {}))
    if kind == "function":
        arguments = spec.get("arguments", {})
        item = {
            "type": "function_call",
            "name": spec["name"],
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            "call_id": call_id,
        }
        if spec.get("namespace"):
            item["namespace"] = spec["namespace"]
        return item
    if kind == "javascript":
        exec_tool = code_mode_tool(request)
        if exec_tool is None:
            raise ScriptError("javascript step, but the request has no exec tool (not a code-mode model)")
        return _exec_item(spec, exec_tool, call_id)
    return {
        "type": "tool_search_call",
        "execution": "client",
        "status": "completed",
        "call_id": call_id,
        "arguments": spec if isinstance(spec, dict) else {"query": spec},
    }


def validate_script(script: dict) -> dict:
    for key in ("turns", "subagent_turns"):
        for turn in script.get(key, []):
            if not isinstance(turn, dict) or not ("steps" in turn or "http_status" in turn):
                raise ScriptError(f"each of {key} needs 'steps' or 'http_status': {turn}")
    if "turns" not in script:
        raise ScriptError("the script needs 'turns'")
    return script
