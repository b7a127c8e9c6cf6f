"""Finds calls whose arguments are no object, or not what the tool takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from operations.trajectories.detectors.episode import Call, Episode, events_of
from operations.trajectories.detectors.finding import Detector, Seen, Unknown, quoted
from operations.trajectories.detectors.schemas import TooMuchToCheck


def _look(episode: Episode) -> Iterator[Seen | Unknown]:
    if not episode.calls:
        yield Unknown("the log has no call")
    untold: Counter[str] = Counter()
    for call in episode.calls:
        if call.status in ("not_exported", "collided"):
            untold["arguments that are not in the log"] += 1
        elif call.name not in episode.schemas and _is_free(call):
            untold["free text instead of arguments, and no schema"] += 1
        elif call.status == "unparsable" or not isinstance(call.arguments, dict):
            yield Seen(events_of([call]), 1.0, f"the arguments of {quoted(call.name)} are no JSON object")
        elif call.name is None or call.name not in episode.schemas:
            untold["no schema of their tool"] += 1
        else:
            try:
                wrong = episode.schemas.problem(call.name, call.arguments)
            except TooMuchToCheck:
                untold["a schema that unfolds too far"] += 1
                continue
            if wrong is not None:
                needs = "tools" if episode.tools_given else None
                said = f"{quoted(call.name)} was not called as it takes: {quoted(wrong)}"
                yield Seen(events_of([call]), 1.0, said, needs=needs)
    for why, number in untold.items():
        yield Unknown(f"{number} calls have {why}")


def _is_free(call: Call) -> bool:
    """Whether a call was given a text that was not meant as JSON: commands and patches are."""
    text = call.arguments
    return call.status == "value" and isinstance(text, str) and text.lstrip()[:1] not in ("{", "[")


DETECTOR = Detector(
    "malformed_call",
    2,
    "Arguments that are not JSON, not an object, or not what the schema of the tool asks for. The text of an object, "
    "as some providers send arguments, is an object; free text, which some tools take, counts only against a schema.",
    _look,
)
