"""Finds calls whose arguments are no object, or not what the tool takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from operations.trajectories.detectors.episode import Call, Episode
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, quoted
from operations.trajectories.detectors.schemas import TooMuchToCheck, problem


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if not episode.calls:
        yield Unknown("the log has no call")
    untold: Counter[str] = Counter()
    endless: set[str | None] = set()
    for call in episode.calls:
        schema = None if episode.tools is None or call.name is None else episode.tools.get(call.name)
        if call.status in ("not_exported", "collided"):
            untold["arguments that are not in the log"] += 1
        elif schema is None and _is_free(call):
            untold["free text instead of arguments, and no schema"] += 1
        elif call.status == "unparsable" or not isinstance(call.arguments, dict):
            yield Seen(_at(call), 1.0, f"the arguments of {quoted(call.name)} are no JSON object")
        elif schema is None:
            untold["no schema of their tool"] += 1
        elif call.name in endless or (wrong := _problem(call.arguments, schema)) is None:
            endless.add(call.name)
            untold["a schema that unfolds too far"] += 1
        elif wrong:
            needs = "tools" if episode.tools_given else None
            yield Seen(_at(call), 1.0, f"{quoted(call.name)} was not called as it takes: {quoted(wrong)}", needs=needs)
    for why, number in untold.items():
        yield Unknown(f"{number} calls have {why}")


def _problem(arguments: dict[str, Any], schema: Mapping[str, Any]) -> str | None:
    """Returns what is wrong with arguments, nothing where they are right, None where that takes too long to tell."""
    try:
        return problem(arguments, schema) or ""
    except TooMuchToCheck:
        return None


def _is_free(call: Call) -> bool:
    """Whether a call was given a text that was not meant as JSON: commands and patches are."""
    text = call.arguments
    return call.status == "value" and isinstance(text, str) and text.lstrip()[:1] not in ("{", "[")


def _at(call: Call) -> tuple[int, ...]:
    return tuple(sorted(call.seqs))


DETECTOR = Detector(
    "malformed_call",
    1,
    "Arguments that are not JSON, not an object, or not what the schema of the tool asks for. The text of an object, "
    "as some providers send arguments, is an object; free text, which some tools take, counts only against a schema.",
    _look,
)
