"""Projects a log to what a judge looks at: what was asked, each step with its outcome, what was answered."""

from __future__ import annotations

from typing import Any

from operations.trajectories.log import EventLog
from operations.trajectories.projections.conversation import Conversation, Said, conversation
from operations.trajectories.projections.losses import Carried, Losses, LossReport

_CARRIED = {
    "text": {"role", "content", "prompt", "turn", "group"},
    "reasoning": {"content", "opaque", "turn", "group"},
    "tool_call": {"call_id", "name", "arguments", "error", "turn", "group"},
    "tool_result": {"call_id", "content", "error", "unpaired"},
    "observation": {"output"},
    "reward": {"name", "scope", "value", "turn", "parent"},
    "memory_op": {"operation", "key", "content", "turn"},
    "turn_complete": {"finish_reason", "usage", "error", "turn"},
}


def evaluator_view(log: EventLog) -> tuple[dict[str, Any], LossReport]:
    """Returns what a judge needs of a run, and what it does not carry.

    `asked` are the texts of the user, `answer` is the last text of the agent or None, `steps` are all things that were
    said, in order, with `seq` and `turn`. A step that is a call has its result beside it: `result` (text, or None),
    `status` (`ok`, `error` or `no_result`) and `error`. Calls of one `group` ran side by side. `rewards`, `memory` and
    `turn_ends` stand apart; `problems` says what is not known of the run, and `state` how it ended.
    """
    losses = Losses("evaluator")
    made = conversation(log, losses, whole=False)
    carried = Carried(_CARRIED, log)
    for event in log:
        losses.rest(event, carried.of(event))
    results = results_of(made)
    steps = [
        _step(said, results.get(place))
        for place, said in enumerate(made.said)
        if said.what != "result" or place in results.unpaired
    ]
    texts = [said for said in made.said if said.what == "text"]
    view = {
        "asked": [said.text for said in texts if said.role == "user"],
        "answer": next((said.text for said in reversed(texts) if said.by_agent and said.left is None), None),
        "steps": steps,
        "turns": len(made.turns),
        **_placed(made),
        "problems": list(made.problems),
        "state": log.state,
        "end_reason": log.end_reason,
    }
    return view, losses.report()


class Results(dict[int, Said]):
    """Where a call stands → its result; `unpaired` are the places of results that answer none."""

    def __init__(self) -> None:
        super().__init__()
        self.unpaired: set[int] = set()


def results_of(made: Conversation) -> Results:
    """Returns which result belongs to which call: the first of its id that comes after it and is not taken."""
    found, waiting = Results(), dict[str | None, list[int]]()
    for place, said in enumerate(made.said):
        if said.what == "call":
            waiting.setdefault(said.call_id, []).append(place)
        elif said.what == "result":
            if waiting.get(said.call_id):
                found[waiting[said.call_id].pop(0)] = said
            else:
                found.unpaired.add(place)
    return found


def _step(said: Said, result: Said | None) -> dict[str, Any]:
    event = said.event
    step: dict[str, Any] = {"seq": said.seq, "what": said.what, "role": said.role}
    step |= {name: event[name] for name in ("turn", "group") if event.get(name) is not None}
    if said.what != "call":
        about = {"call_id": said.call_id} if said.what == "result" else {}
        return {**step, **about, "text": said.text}
    error = (result.event if result else event).get("error") or event.get("error")
    return {
        **step,
        "call_id": said.call_id,
        "name": said.name,
        "arguments": said.arguments,
        "result": result.text if result else None,
        "result_seq": result.seq if result else None,
        "status": "error" if error else "ok" if result else "no_result",
        "error": error,
    }


def _placed(made: Conversation) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"rewards": [], "memory": [], "turn_ends": []}
    names = {"reward": "rewards", "memory_op": "memory", "turn_complete": "turn_ends"}
    for _, event in made.placed:
        kept = ("seq", *sorted(_CARRIED[event["kind"]]))
        found[names[event["kind"]]].append({name: event[name] for name in kept if event.get(name) is not None})
    return found
