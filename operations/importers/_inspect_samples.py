"""Brings a sample of an inspect_ai log into one form: messages once, attachments in their places, nothing said twice.

Logs differ in how they save space: a model's event repeats all messages so far, or points into a pool of them; long
texts stand in `attachments`, and `attachment://<name>` where they belong. In the one form a model's event has
`input_refs`, the numbers of its messages in `pool`. A model's raw request and response (`call`), which say the same
once more, are left out, and so is what repeats the sample's own beginning, or a traceback in colours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from operations.importers._cells import has_not_finite
from operations.importers._grouping import MAX_TRACE, TraceTooLarge
from operations.importers._json_values import NotFinite, dumps

_REFERENCE = re.compile(r"attachment://([0-9a-f]{32}|[0-9]{1,9})")
_SCHEME = "attachment://"
LEFT_OUT = "left_out"
POOL = "pool"


def one_form(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a sample in the one form. `left_out` counts what was: `call`, `sample_init`, `traceback_ansi`.

    Raises:
        TraceTooLarge: With its attachments it is more than is put together in memory.
    """
    made = dict(sample)
    counts: dict[str, int] = {}
    attachments = made.pop("attachments", None)
    events_data = made.pop("events_data", None)
    pool = _Pool(events_data.get("messages") if isinstance(events_data, Mapping) else None)
    events = made.get("events")
    if isinstance(events, list):
        made["events"] = [_event(event, pool, counts) for event in events]
    if isinstance(retries := made.get("error_retries"), list):
        made["error_retries"] = [_without_colour(one, counts, pool) for one in retries]
    if "error" in made:
        made["error"] = _without_colour(made["error"], counts, pool)
    made[POOL] = pool.messages
    if counts:
        made[LEFT_OUT] = counts
    if isinstance(attachments, Mapping) and attachments:
        name = f"sample {sample.get('id')} epoch {sample.get('epoch')}"
        made = _Resolver(attachments, name).resolved(made)
    return made


def marks_of(sample: Mapping[str, Any]) -> dict[str, str]:
    """Returns the members in which a number is none: `scores.<name>` → unparsable, another one → lossy."""
    found = {
        name: "lossy"
        for name, value in sample.items()
        if name not in ("scores", "events", POOL) and isinstance(value, dict | list) and has_not_finite(value)
    }
    scores = sample.get("scores")
    for name, score in scores.items() if isinstance(scores, Mapping) else ():
        if isinstance(score, Mapping) and has_not_finite(score.get("value")):
            found[f"scores.{name}"] = "unparsable" if isinstance(score["value"], NotFinite) else "lossy"
    return found


def is_lost(value: Any) -> bool:  # noqa: ANN401 - JSON
    """Returns whether a value only points to an attachment, which the log does not hold: others were put in place."""
    return isinstance(value, str) and value.startswith(_SCHEME) and _REFERENCE.fullmatch(value) is not None


def unresolved(sample: Any) -> int:  # noqa: ANN401 - JSON
    """Returns how many texts of a sample still point to an attachment that its log does not hold."""
    if isinstance(sample, str):
        return int(is_lost(sample))
    if isinstance(sample, Mapping):
        return sum(unresolved(item) for item in sample.values())
    return sum(unresolved(item) for item in sample) if isinstance(sample, list) else 0


class _Pool:
    """The messages that models were given, each once, in the order in which they were given first."""

    def __init__(self, stored: Any) -> None:  # noqa: ANN401 - JSON
        self.messages: list[Any] = []
        self._stored: list[Any] = stored if isinstance(stored, list) else []
        self._of_stored: dict[int, int] = {}
        self._of_content: dict[bytes, int] = {}

    def numbers(self, refs: Any, given: Any) -> list[int]:  # noqa: ANN401 - JSON
        """Returns the numbers of the messages that an event points to in its log's own pool, or holds itself."""
        found = []
        for place in ranges(refs, len(self._stored)):
            if place not in self._of_stored:
                self._of_stored[place] = self._number(self._stored[place])
            found.append(self._of_stored[place])
        return found + [self._number(message) for message in (given if isinstance(given, list) else ())]

    def _number(self, message: Any) -> int:  # noqa: ANN401 - JSON
        key = dumps(message)
        found = self._of_content.get(key)
        if found is None:
            found = self._of_content[key] = len(self.messages)
            self.messages.append(message)
        return found


def _event(event: Any, pool: _Pool, counts: dict[str, int]) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(event, Mapping):
        return event
    made = dict(event)
    match made.get("event"):
        case "model":
            given = made.pop("input", None)
            made["input_refs"] = pool.numbers(made.pop("input_refs", None), given)
            if isinstance(given, str) and given:
                made["input"] = given
            if made.pop("call", None) is not None:
                counts["call"] = counts.get("call", 0) + 1
        case "sample_init":
            if made.pop("sample", None) is not None:
                made.pop("state", None)
                counts["sample_init"] = counts.get("sample_init", 0) + 1
        case "error":
            made["error"] = _without_colour(made.get("error"), counts, pool)
        case _:
            pass
    if isinstance(made.get("events"), list):
        made["events"] = [_event(inner, pool, counts) for inner in made["events"]]
    return made


def ranges(given: Any, size: int) -> Iterator[int]:  # noqa: ANN401 - JSON
    """Yields the numbers of half-open ranges, as far as they are below `size`."""
    for pair in given if isinstance(given, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(end, int) for end in pair):  # noqa: PLR2004 - a range
            yield from range(max(pair[0], 0), min(pair[1], size))


def _without_colour(error: Any, counts: dict[str, int], pool: _Pool) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(error, Mapping):
        return error
    made = dict(error)
    if made.get("traceback") and made.pop("traceback_ansi", None):
        counts["traceback_ansi"] = counts.get("traceback_ansi", 0) + 1
    if isinstance(made.get("events"), list):
        made["events"] = [_event(event, pool, counts) for event in made["events"]]
    return made


class _Resolver:
    """Puts attachments where they are pointed to. One text that stands in many places is counted in each."""

    def __init__(self, attachments: Mapping[str, Any], name: str) -> None:
        self._attachments = attachments
        self._name = name
        self._size = 0

    def resolved(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Returns a value with its attachments."""
        if isinstance(value, str):
            return self._text(value) if _SCHEME in value else value
        if isinstance(value, dict):
            return {name: self.resolved(item) for name, item in value.items()}
        return [self.resolved(item) for item in value] if isinstance(value, list) else value

    def _text(self, text: str) -> str:
        return _REFERENCE.sub(self._content, text)

    def _content(self, found: re.Match[str]) -> str:
        content = self._attachments.get(found[1])
        if not isinstance(content, str):
            return found[0]
        self._size += len(content)
        if self._size > MAX_TRACE:
            raise TraceTooLarge(trace_id=self._name[:80])
        return content
