"""Writes an EventLog in the format that it was imported from, as far as the log claims to carry it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]
Rows = list[dict[str, Any]]


def jsonl(rows: Iterable[Any]) -> bytes:
    """Returns rows as a file of lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def value_of(content: Event) -> Any:
    """Returns what a source has where a log has this content."""
    return content.get("value", "" if content["status"] == "empty" else None)


# ---- Langfuse ----------------------------------------------------------------------------------------------------


def langfuse(events: Sequence[Event], trace_id: str) -> bytes:
    """Returns observations, a row each; a call and its result are one."""
    results = {e["call_id"]: e for e in events if e["kind"] == "tool_result"}
    rows: Rows = []
    for event in events:
        if event["kind"] == "tool_result":
            continue
        content = {"tool_call": ("arguments", None), "text": ("prompt", "content")}.get(
            event["kind"], ("input", "output")
        )
        said = results[event["call_id"]]["content"] if event["kind"] == "tool_call" else event[str(content[1])]
        kind = {"tool_call": "TOOL", "text": "GENERATION"}.get(event["kind"]) or event["type"]
        model = event.get("model", {})
        row = {**event.get("attributes", {}), "id": event["id"], "trace_id": trace_id, "type": kind}
        row |= {"parent_observation_id": event.get("parent", ""), "name": event.get("name")}
        row |= {"start_time": event.get("at_text"), "end_time": event.get("ended_text")}
        row |= {name: value_of(one) for name, one in (("input", event[content[0]]), ("output", said)) if is_said(one)}
        row |= {"provided_model_name": model.get("name"), "model_parameters": model.get("parameters")} if model else {}
        rows.append(row)
    return jsonl(rows)


def is_said(content: Event) -> bool:
    """Whether a source has the field at all."""
    return bool(content["status"] != "not_exported")


# ---- inspect_ai --------------------------------------------------------------------------------------------------


def inspect_ai(events: Sequence[Event], sample: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a sample whose transcript holds the events: what a model was given stands in its input."""
    given: Rows = []
    transcript: Rows = []
    ends: Rows = []
    calls = {e["call_id"]: e for e in events if e["kind"] == "tool_call"}
    for event in events:
        base = {"uuid": event["id"], "timestamp": event.get("at_text"), "span_id": event.get("parent")}
        base |= {"completed": event["ended_text"]} if "ended_text" in event else {}
        match event["kind"]:
            case "observation":
                transcript.append(_other(event, base, ends))
            case "text" if event["role"] == "assistant":
                made = _message(event, [c for c in calls.values() if c.get("parent") == event["id"]])
                transcript.append(_model(event, base, list(given), made))
                given.append(made)
            case "text":
                given.append(_message(event, []))
            case "tool_result":
                called = calls[event["call_id"]]
                times = {"timestamp": called.get("at_text"), "completed": event.get("at_text")}
                tool = {"event": "tool", "id": event["call_id"], "function": event["name"], **base, **times}
                tool |= {"arguments": value_of(called["arguments"]), "result": value_of(event["content"])}
                tool |= {"error": {"type": event["error"].get("code"), **event["error"]}} if "error" in event else {}
                transcript.append({**event.get("attributes", {}), **tool})
    return {**sample, "events": [*transcript, *ends], "messages": given}


def _message(event: Event, calls: Sequence[Event]) -> dict[str, Any]:
    made = {"id": event["id"], "role": event["role"], "content": value_of(event["content"])}
    if calls:
        made["tool_calls"] = [
            {"id": c["call_id"], "function": c["name"], "arguments": value_of(c["arguments"]), "type": "function"}
            for c in calls
        ]
    made |= {name: event["attributes"][name] for name in ("source",) if name in event.get("attributes", {})}
    return made


def _model(event: Event, base: Mapping[str, Any], given: Rows, made: dict[str, Any]) -> dict[str, Any]:
    kept = dict(event.get("attributes", {}))
    model = event.get("model", {})
    choice = {"message": {**made, "model": model.get("name")}, "stop_reason": kept.pop("finish_reason", None)}
    output = {
        **kept.pop("output", {}),
        "model": model.get("name"),
        "choices": [choice],
        "usage": kept.pop("usage", None),
    }
    kept.pop("source", None)
    return {**kept, **base, "event": "model", "model": model.get("name"), "config": model.get("parameters")} | {
        "input": given,
        "output": output,
    }


def _other(event: Event, base: Mapping[str, Any], ends: Rows) -> dict[str, Any]:
    made = {**event.get("attributes", {}), **base, "event": event["type"], "name": event.get("name")}
    made |= {name: value_of(event[name]) for name in ("input", "output") if is_said(event[name])}
    if event["type"] == "span_begin":
        made.pop("completed", None)
        made |= {"id": event["id"], "parent_id": event.get("parent")}
        if "ended_text" in event:
            ends.append({"event": "span_end", "id": event["id"], "timestamp": event["ended_text"]})
    return made


# ---- sessions ----------------------------------------------------------------------------------------------------


def codex(events: Sequence[Event], thread: str) -> bytes:
    """Returns a rollout: the model's history, the ends of turns, and what else has a line of its own."""
    provider = next((e["model"]["provider"] for e in events if e.get("model", {}).get("provider")), None)
    head = {"id": thread, "model_provider": provider}
    rows: Rows = [{"timestamp": events[0].get("at_text"), "type": "session_meta", "payload": head}]
    for event in events:
        kept = {k: v for k, v in event.get("attributes", {}).items() if k not in _CODEX_MADE}
        kind, payload = "response_item", kept
        match event["kind"]:
            case "text":
                payload |= {"type": "message", "role": event["role"], "content": value_of(event["content"])}
            case "reasoning":
                attributes = event.get("attributes", {})
                summary, raw = attributes.get("summary", []), None
                if event["opaque"]:
                    summary = [value_of(event["content"])] if is_said(event["content"]) else []
                else:
                    raw = [{"type": "reasoning_text", "text": value_of(event["content"])}]
                shown = [{"type": "summary_text", "text": one} for one in summary]
                payload |= {"type": "reasoning", "summary": shown, "content": raw}
                payload |= {"encrypted_content": attributes.get("encrypted_content")}
            case "tool_call":
                given = event["arguments"]
                arguments = given["value"] if given["status"] == "unparsable" else json.dumps(value_of(given))
                payload |= {"type": "function_call", "name": event["name"], "arguments": arguments}
                payload |= {"call_id": event["call_id"]}
            case "tool_result":
                payload |= {"type": "function_call_output", "call_id": event["call_id"]}
                payload |= {"output": value_of(event["content"])}
            case "turn_complete":
                kind = "event_msg"
                done = event["finish_reason"] == "completed"
                payload |= {"type": "task_complete" if done else "turn_aborted", "turn_id": event["id"]}
                payload |= {} if done else {"reason": event["finish_reason"]}
            case "observation":
                kind, _, inner = event["type"].partition(".")
                payload = {**({"type": inner} if inner else {}), **(value_of(event["output"]) or {})}
        if event["kind"] not in ("observation", "turn_complete") and event["id"] != event.get("call_id"):
            payload |= {} if event["id"] == f"e{event['seq']}" else {"id": event["id"]}
        rows.append({"timestamp": event.get("at_text"), "type": kind, "payload": payload})
    return jsonl(rows)


_CODEX_MADE = ("also", "context", "encrypted_content", "item_id", "line", "summary", "duration_seconds", "exit_code")
"""Attributes that the importer makes of other lines or fields."""


def claude_code(events: Sequence[Event], session: str) -> bytes:
    """Returns a session: a line for each block of an answer, for what was given and for what else has one."""
    rows: Rows = []
    before: str | None = None
    for number, event in enumerate(events):
        kept = dict(event.get("attributes", {}))
        line = {"sessionId": session, "uuid": f"{session}-{number}", "parentUuid": before}
        line |= {"timestamp": event["at_text"]} if "at_text" in event else {}
        content = event.get("content", {})
        block: dict[str, Any] | str | None = None
        match event["kind"]:
            case "text" if event["role"] == "assistant":
                block = {"type": "text", "text": value_of(content)}
            case "reasoning":
                block = {"type": "thinking", "thinking": value_of(content)}
            case "tool_call":
                arguments = value_of(event["arguments"])
                block = {"type": "tool_use", "id": event["call_id"], "name": event["name"], "input": arguments}
        if block is not None:
            message = {"id": kept["message_id"], "role": "assistant", "content": [block]}
            message |= {"model": event.get("model", {}).get("name"), "usage": kept.get("usage")}
            message |= {"stop_reason": kept.get("stop_reason"), **(kept.get("message") or {})}
            rows.append({**line, "type": "assistant", "message": message})
        elif event["kind"] in ("text", "tool_result"):
            given: Any = value_of(content)
            if event["kind"] == "tool_result":
                answer = {"type": "tool_result", "tool_use_id": event["call_id"], "content": given}
                given = [{**answer, "is_error": "error" in event}]
            more = {"isMeta": True} if kept.get("context") else {}
            rows.append({**line, **more, "type": "user", "message": {"role": "user", "content": given}})
        elif event["kind"] == "observation":
            kind, _, subtype = event["type"].partition(".")
            rows.append(
                {**line, "type": kind, **({"subtype": subtype} if subtype else {}), **value_of(event["output"])}
            )
        else:
            continue  # the end of a turn is told by the answer's stop_reason
        before = str(line["uuid"])
    return jsonl(rows)
