"""Finds calls whose arguments are no object, or not what the tool takes."""

from __future__ import annotations

from collections.abc import Iterator

from operations.trajectories.detectors.episode import Call, Episode
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, quoted
from operations.trajectories.detectors.schemas import problem


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    unknown, schemaless = 0, 0
    if not episode.calls:
        yield Unknown("the log has no call")
    for call in episode.calls:
        if call.status in ("not_exported", "collided"):
            unknown += 1
            continue
        arguments = call.arguments
        if call.status == "unparsable" or not isinstance(arguments, dict):
            yield Seen(_at(call), 1.0, f"the arguments of {quoted(call.name)} are no JSON object")
            continue
        schema = None if episode.tools is None or call.name is None else episode.tools.get(call.name)
        if schema is None:
            schemaless += 1
        elif wrong := problem(arguments, schema):
            needs = "tools" if episode.tools_given else None
            yield Seen(_at(call), 1.0, f"{quoted(call.name)} was not called as it takes: {quoted(wrong)}", needs=needs)
    if unknown:
        yield Unknown(f"the arguments of {unknown} calls are not in the log")
    if schemaless:
        yield Unknown(f"there is no schema of the tools of {schemaless} calls")


def _at(call: Call) -> tuple[int, ...]:
    return tuple(sorted(call.seqs))


DETECTOR = Detector(
    "malformed_call",
    1,
    "Arguments that are not JSON, not an object, or not what the schema of the tool asks for. The text of an "
    "object, as some providers send arguments, is an object.",
    _look,
)
