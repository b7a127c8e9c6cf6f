"""Tells a trace in lines: who asked for what, what was answered, and how long it took."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from atk_mcp.tracing.recorder import FORMAT, TraceUnusable
from operations.wording import counted

_SHOWN = 160
"""Characters of arguments, texts and errors in a line; `--json` shows all of them."""

_KILO = 1_000
_ARROW = {"client": "→", "server": "←"}
_OTHER = {"client": "server", "server": "client"}

Entry = Mapping[str, Any]


@dataclass
class _Session:
    """What one session has asked and not been answered yet, and what it came to."""

    asked: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    requests: int = 0
    errors: int = 0
    carried: dict[str, int] = field(default_factory=lambda: {"client": 0, "server": 0})
    slowest: tuple[float, str] = (0.0, "")


def entries(path: str) -> Iterator[Entry]:
    """Yields the lines of a trace. A last line that is still being written is left out.

    Raises:
        TraceUnusable: It cannot be read, or is no trace.
    """
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    return
                yield _entry(path, number, line)
    except OSError as error:
        raise TraceUnusable(path=path, reason=error.strerror or str(error)) from error
    except UnicodeDecodeError:
        raise TraceUnusable(path=path, reason="it is not UTF-8") from None


def _entry(path: str, number: int, line: str) -> Entry:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not _is_whole(found) or found.get("format", FORMAT) != FORMAT:
        raise TraceUnusable(path=path, reason=f"line {number} is not of a trace of format {FORMAT}")
    shown: Entry = found
    return shown


def _is_whole(found: Entry) -> bool:
    """Whether an object has what each line of a trace has."""
    known = isinstance(found.get("session"), str) and isinstance(found.get("ms"), int | float)
    if found.get("from") == "trace":
        return known and (isinstance(found.get("command"), list) or "ended" in found)
    return known and found.get("from") in ("client", "server") and isinstance(found.get("bytes"), int)


def lines(found: Iterator[Entry]) -> Iterator[str]:
    """Yields a line for each entry, and one that sums up each session that has ended."""
    sessions: dict[str, _Session] = {}
    for entry in found:
        session = sessions.setdefault(entry["session"], _Session())
        side, at = entry["from"], float(entry["ms"])
        if side == "trace":
            yield from _of_trace(entry, session)
            continue
        session.carried[side] += entry["bytes"]
        told = " ".join(_told(entry, session, at).split())  # a line feed in a name would begin what looks like a line
        yield f"{at / 1000:9.3f} s {_ARROW[side]} {told}  ({_bytes(entry['bytes'])})"


def _of_trace(entry: Entry, session: _Session) -> Iterator[str]:
    if "command" in entry:
        yield f"session {entry['session']}, {entry.get('at')}: {' '.join(' '.join(map(str, entry['command'])).split())}"
        return
    slow = f"; slowest: {session.slowest[1]}, {_seconds(session.slowest[0])}" if session.slowest[1] else ""
    carried = f"{_bytes(session.carried['client'])} to the server, {_bytes(session.carried['server'])} from it"
    yield (
        f"session {entry['session']} ended with status {entry['ended']}: {counted(session.requests, 'request')}, "
        f"{counted(session.errors, 'error')}, {len(session.asked)} unanswered; {carried}{slow}"
    )


def _told(entry: Entry, session: _Session, at: float) -> str:
    side, message = entry["from"], entry.get("message")
    if not isinstance(message, Mapping):
        return f"no message: {_cut(entry.get('text', message))}"
    number = message.get("id")
    key = json.dumps(number)
    if "method" in message:
        name = _name(message)
        if number is None:
            return f"{name}{_progress(message)}"
        session.asked[side, key] = name, at
        session.requests += 1
        return f"{name} #{_cut(number)}{_arguments(message)}"
    name, begun = session.asked.pop((_OTHER[side], key), ("(nothing asked)", at))
    session.slowest = max(session.slowest, (at - begun, name))
    result = _outcome(message)
    session.errors += result.startswith("error")
    return f"{name} #{_cut(number)}, {_seconds(at - begun)}: {result}"


def _name(message: Entry) -> str:
    params = message.get("params")
    of = params.get("name") or params.get("uri") if isinstance(params, Mapping) else None
    return _cut(f"{message['method']} {of}" if isinstance(of, str) else str(message["method"]))


def _arguments(message: Entry) -> str:
    params = message.get("params")
    given = params.get("arguments") if isinstance(params, Mapping) else None
    return f" {_cut(given)}" if given else ""


def _progress(message: Entry) -> str:
    params = message.get("params")
    if message["method"] != "notifications/progress" or not isinstance(params, Mapping):
        return ""
    of = f"/{_cut(params['total'])}" if params.get("total") is not None else ""
    return f" {_cut(params.get('progress'))}{of} {_cut(params.get('message') or '')}".rstrip()


def _outcome(message: Entry) -> str:
    if isinstance(error := message.get("error"), Mapping):
        return f"error {_cut(error.get('code'))} {_cut(error.get('message'))}"
    result = message.get("result")
    if not isinstance(result, Mapping):
        return _cut(result)
    content = result.get("content")
    texts = [part.get("text") for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    failed = "error: " if result.get("isError") is True else ""
    return failed + (_cut(texts[0]) if texts and isinstance(texts[0], str) else _cut(sorted(result)))


def _cut(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _bytes(count: int) -> str:
    return f"{count} B" if count < _KILO else f"{count / _KILO:.1f} kB"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < _KILO else f"{milliseconds / _KILO:.1f} s"
