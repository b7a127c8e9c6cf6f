"""Logs of inspect_ai, made up, in each form in which inspect_ai writes them."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from typing import Any

import zstandard

LONG = "a long text that is kept once. " * 5


def message(role: str, content: Any, number: int, **more: Any) -> dict[str, Any]:
    """Returns a message of a conversation."""
    return {"id": f"m{number}", "content": content, "role": role, **more}


def call(number: int, **arguments: Any) -> dict[str, Any]:
    """Returns a call of a tool, as a message of a model has it."""
    return {"id": f"c{number}", "function": "add", "arguments": arguments, "type": "function"}


def second(number: int) -> str:
    """Returns a time, `number` seconds after noon."""
    return f"2026-11-29T12:00:{number:02d}.500000+00:00"


def sample(case: Any = "a", epoch: int = 1, **more: Any) -> dict[str, Any]:
    """Returns a sample in which a model calls a tool and answers, with its transcript; messages stand in it whole."""
    asked = message("user", f"1+1? {LONG}", 1, source="input")
    called = message("assistant", "let me add", 2, source="generate", tool_calls=[call(1, x=1, y=1)], model="mock/m")
    told = message("tool", "2", 3, tool_call_id="c1", function="add")
    answered = message("assistant", f"it is 2. {LONG}", 4, source="generate", model="mock/m")
    base = {"working_start": 0.1}

    def model(number: int, given: list[dict[str, Any]], said: dict[str, Any], stop: str) -> dict[str, Any]:
        return {
            "uuid": f"{case}{epoch}-e{number}",
            "span_id": "s1",
            "timestamp": second(number),
            **base,
            "event": "model",
            "model": "mock/m",
            "input": given,
            "tools": [{"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}],
            "tool_choice": "auto",
            "config": {"temperature": 0.5},
            "output": {
                "model": "mock/m",
                "choices": [{"message": said, "stop_reason": stop}],
                "completion": said["content"],
                "usage": {"input_tokens": 10 * number, "output_tokens": 5, "total_tokens": 10 * number + 5},
            },
            "call": {"request": {"messages": given}, "response": {"text": said["content"]}},
            "completed": second(number + 1),
            "working_time": 0.5,
        }

    events = [
        {"uuid": f"{case}{epoch}-b", "span_id": "s1", "timestamp": second(1), **base, "event": "span_begin", "id": "s1",
         "type": "solver", "name": "generate"},
        {"uuid": f"{case}{epoch}-i", "span_id": "s1", "timestamp": second(1), **base, "event": "sample_init",
         "sample": {"input": asked["content"], "target": "2", "id": case}, "state": {"messages": [asked]}},
        model(2, [asked], called, "tool_calls"),
        {"uuid": f"{case}{epoch}-t", "span_id": "s1", "timestamp": second(4), **base, "event": "tool",
         "type": "function", "id": "c1", "function": "add", "arguments": {"x": 1, "y": 1}, "result": "2", "events": [],
         "completed": second(5), "working_time": 0.2, "message_id": "m3"},
        model(6, [asked, called, told], answered, "stop"),
        {"uuid": f"{case}{epoch}-s", "span_id": "s1", "timestamp": second(8), **base, "event": "span_end", "id": "s1"},
    ]  # fmt: skip
    return {
        "id": case,
        "epoch": epoch,
        "input": asked["content"],
        "target": "2",
        "messages": [asked, called, told, answered],
        "output": events[4]["output"],
        "scores": {"match": {"value": "C", "answer": "2", "explanation": "as said", "history": []}},
        "metadata": {"level": 1},
        "store": {},
        "events": events,
        "model_usage": {"mock/m": {"input_tokens": 80, "output_tokens": 10, "total_tokens": 90}},
        "started_at": second(0),
        "completed_at": second(9),
        "total_time": 9.0,
        "working_time": 1.2,
        "uuid": f"u-{case}-{epoch}",
        **more,
    }


def log(*samples: dict[str, Any], status: str = "success", **more: Any) -> dict[str, Any]:
    """Returns a log of some samples."""
    ids = list(dict.fromkeys(one["id"] for one in samples))
    return {
        "version": 2,
        "status": status,
        "eval": {
            "eval_id": "ev1",
            "run_id": "r1",
            "created": "2026-11-29T12:00:00+00:00",
            "task": "sums",
            "task_version": 0,
            "dataset": {"samples": len(ids), "sample_ids": ids, "shuffled": False},
            "model": "mock/m",
            "config": {"epochs": max((one["epoch"] for one in samples), default=1)},
            "packages": {"inspect_ai": "0.3.285"},
            "revision": {"type": "git", "commit": "abc1234", "dirty": False},
        },
        "plan": {"name": "plan", "steps": []},
        "results": {
            "total_samples": len(samples),
            "completed_samples": len(samples),
            "scores": [
                {"name": "match", "scorer": "match", "metrics": {"accuracy": {"name": "accuracy", "value": 1.0}}}
            ],
        },
        "stats": {"started_at": second(0), "completed_at": second(9)},
        "samples": list(samples),
        "reductions": [
            {"scorer": "match", "reducer": "mean", "samples": [{"value": 1.0, "sample_id": i} for i in ids]}
        ],
        **more,
    }


def condensed(one: dict[str, Any]) -> dict[str, Any]:
    """Returns a sample with its long texts as attachments, and the messages of its models in a pool."""
    attachments: dict[str, str] = {}
    pool: list[dict[str, Any]] = []

    def cut(value: Any) -> Any:
        if isinstance(value, str) and len(value) > 100:
            name = f"{zlib.crc32(value.encode()):032x}"
            attachments[name] = value
            return f"attachment://{name}"
        if isinstance(value, dict):
            return {name: cut(item) for name, item in value.items()}
        return [cut(item) for item in value] if isinstance(value, list) else value

    events = []
    for event in one["events"]:
        made = cut(event)
        if event["event"] == "model":
            places = []
            for given in made["input"]:
                if given not in pool:
                    pool.append(given)
                places.append(pool.index(given))
            made |= {"input": [], "input_refs": [[place, place + 1] for place in places]}
        events.append(made)
    data = {"messages": pool, "calls": []}
    return {**one, "events": events, "attachments": attachments, "events_data": data}


def chunked(one: dict[str, Any]) -> dict[str, Any]:
    """Returns the members in which a large sample is stored: name → content."""
    small = condensed(one)
    names = list(small["attachments"])
    text = json.dumps({k: small[k] for k in ("events", "events_data", "messages")})
    for place, name in enumerate(names):
        text = text.replace(f"attachment://{name}", f"attachment://{place}")
    parts = json.loads(text)
    pool = parts["events_data"]["messages"]
    for given in parts["messages"]:
        if given["id"] not in [m["id"] for m in pool]:
            pool.append(given)
    ids = [m["id"] for m in pool]
    places = [ids.index(given["id"]) for given in parts["messages"]]
    away = ("messages", "events", "events_data", "attachments", "metadata")
    folder = f"samples/{one['id']}_epoch_{one['epoch']}"
    shell = {name: value for name, value in one.items() if name not in away}
    members = {
        f"{folder}/sample.json": {**shell, "message_refs": [[place, place + 1] for place in places]},
        f"{folder}/metadata.json": one["metadata"],
        f"{folder}/skeleton.json": {"spans": []},
        f"{folder}/events/stats.json": {},
        f"{folder}/events/uuids.json": [],
    }
    attachments = [small["attachments"][name] for name in names]
    for sequence, items in (("messages", pool), ("events", parts["events"]), ("attachments", attachments)):
        for start in range(0, len(items), 2):
            members[f"{folder}/{sequence}/{start}.json"] = items[start : start + 2]
    return members


def members_of(made: dict[str, Any], *, chunks: bool = False) -> dict[str, Any]:
    """Returns the members of a log's archive: name → content."""
    header = {name: value for name, value in made.items() if name not in ("samples", "reductions")}
    found: dict[str, Any] = {"_journal/start.json": {name: made[name] for name in ("version", "eval", "plan")}}
    for one in made["samples"]:
        if chunks:
            found |= chunked(one)
        else:
            found[f"samples/{one['id']}_epoch_{one['epoch']}.json"] = condensed(one)
    found["summaries.json"] = [{"id": one["id"], "epoch": one["epoch"]} for one in made["samples"]]
    if made.get("reductions"):
        found["reductions.json"] = made["reductions"]
    return {**found, "header.json": header}


def archive(members: dict[str, Any], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Returns a zip file of members; what is no bytes is written as JSON. Zstandard, 93, is written by hand."""
    whole = {k: v if isinstance(v, bytes) else json.dumps(v).encode() for k, v in members.items()}
    if method != 93:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as made:
            for name, data in whole.items():
                made.writestr(name, data)
        return file.getvalue()
    body, directory = b"", b""
    for text, data in whole.items():
        name = text.encode()
        half = len(data) // 2
        packed = b"".join(zstandard.ZstdCompressor().compress(part) for part in (data[:half], data[half:]))
        about = struct.pack("<HHHHIIIHH", 0x800, method, 0, 33, zlib.crc32(data), len(packed), len(data), len(name), 0)
        directory += b"PK\x01\x02" + struct.pack("<HH", 63, 63) + about + struct.pack("<HHHII", 0, 0, 0, 0, len(body))
        directory += name
        body += b"PK\x03\x04" + struct.pack("<H", 63) + about + name + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(whole), len(whole), len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end
