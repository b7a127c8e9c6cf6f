"""What holds of the detectors on every log that there can be."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operations.trajectories import EventLog
from operations.trajectories.detectors import DETECTORS, Budget, Episode, detect
from operations.trajectories.form import ERRORS, KINDS, MEMORY, ROLES, SCOPES, STATUSES

LOOPS = ("identical_loop", "alternating_loop", "near_duplicate_loop")

words = st.sampled_from(
    ["", "a b", "B, a", "no hits", "ok",
     "12 of 1,300.5", "Ana wrote it.", "I will look.", "{", '{"a": 1}', '{"a": NaN}',
     "Error: no", "V-12", "2026-06-02", "x_y.pdf", "\uff19\uff19\uff05", "e\u0301", "\ud800", "  ", "I'm"]
)  # fmt: skip
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words | st.text()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.text(max_size=3), inner, max_size=3)
)
contents = st.fixed_dictionaries({"status": st.sampled_from(STATUSES)}, optional={"value": values})
errors = st.fixed_dictionaries({"kind": st.sampled_from(ERRORS)}, optional={"message": words, "code": words})
names = st.sampled_from(["s", "t", "u"])


@st.composite
def any_event(draw):
    """Returns an event of any kind that a log takes."""
    kind = draw(st.sampled_from([*KINDS, "tool_call", "tool_result"]))
    event = {"kind": kind}
    if draw(st.integers(0, 4)) == 0:
        event["error"] = draw(errors)
    match kind:
        case "text":
            event |= {"role": draw(st.sampled_from(ROLES)), "content": draw(contents)}
        case "reasoning":
            event["content"] = draw(contents)
        case "tool_call":
            event |= {"name": draw(st.none() | names), "arguments": draw(contents)}
        case "tool_result":
            event["content"] = draw(contents)
        case "observation":
            event |= {"input": draw(contents), "output": draw(contents)}
        case "turn_complete":
            event["usage"] = draw(
                st.dictionaries(st.sampled_from(["total_tokens", "input_tokens", "x"]), st.integers(0, 9))
            )
        case "reward":
            event |= {"name": "r", "scope": draw(st.sampled_from(SCOPES)), "value": 1.0, "turn": 0, "parent": "e0"}
        case "memory_op":
            event |= {"operation": draw(st.sampled_from(MEMORY)), "content": draw(contents)}
    attributes = {"usage": {"total_tokens": 3}, "tool_definitions": [draw(values)], "context": True, "sidechain": "x"}
    chosen = draw(st.sets(st.sampled_from(list(attributes))))
    return event | ({"attributes": {name: attributes[name] for name in chosen}} if chosen else {})


@st.composite
def any_log(draw):
    """Returns a log of events in any order, in which results answer open calls."""
    log = EventLog(draw(st.none() | st.just({"s": {"parameters": {"type": "object"}}, "t": {}})))
    waiting = []
    log.append({"kind": "text", "role": "user", "content": {"status": "value", "value": draw(words)}})
    for number, event in enumerate(draw(st.lists(any_event(), max_size=14))):
        if event["kind"] == "tool_call":
            waiting.append(f"c{number}")
            event["call_id"] = waiting[-1]
        elif event["kind"] == "tool_result":
            if not waiting:
                continue
            event["call_id"] = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
        log.append(event)
    if draw(st.booleans()):
        log.end(
            draw(st.sampled_from(["completed", "failed", "cancelled", "interrupted", "unknown"])),
            draw(st.none() | words),
        )
    return log


calls = st.lists(
    st.tuples(
        names, st.sampled_from([{"q": "a b"}, {"q": "B, a"}, {"q": "a  b?"}, {}]), st.sampled_from(["no hits", "x", 4])
    ),
    min_size=3,
    max_size=16,
)


def log_of(events, tools=None, state="completed"):
    log = EventLog(tools)
    for event in events:
        log.append(event)
    log.end(state)
    return log


def content(value):
    return {"status": "value", "value": value}


def turns(made, mark="c"):
    events = []
    for number, (name, arguments, result) in enumerate(made):
        call_id = f"{mark}{number}"
        events.append({"kind": "tool_call", "call_id": call_id, "name": name, "arguments": content(arguments)})
        events.append({"kind": "tool_result", "call_id": call_id, "content": content(result)})
    return events


def said(role, text):
    return {"kind": "text", "role": role, "content": content(text)}


def facts(results, shift=0):
    """Returns what was found, without the words for it, its events moved back by `shift`."""
    return {(f.detector, tuple(seq - shift for seq in f.seqs), f.confidence) for r in results for f in r.findings}


@given(any_log(), st.none() | st.integers(0, 3))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_detector_has_an_answer_to_every_log_and_cites_what_is_there(log, limit):
    episode = Episode(log, budget=Budget(calls=limit, tokens=limit), asked=["a b"], answered="It is 7.")
    results = detect(episode)
    assert [r.detector for r in results] == [d.name for d in DETECTORS]
    for result in results:
        named = [finding.name for finding in result.findings]
        assert len(set(named)) == len(named)
        for finding in result.findings:
            assert list(finding.seqs) == sorted(set(finding.seqs))
            assert 0 <= finding.seqs[0] <= finding.seqs[-1] < len(log)
            assert 0 < finding.confidence <= 1
            assert len(finding.reason) < 400
            assert finding.reason.isprintable()
    assert facts(results) == facts(detect(Episode(EventLog.from_stored(log.as_stored()), **vars_of(episode))))


def vars_of(episode):
    return {"budget": episode.budget, "asked": episode.asked, "answered": episode.answered}


@given(calls, st.booleans())
def test_what_comes_before_and_after_a_loop_takes_no_loop_away(made, asked_again):
    alone = facts(detect(Episode(log_of(turns(made)))))
    before = [said("user", "Hello."), *turns([("other", {"p": 1}, "one"), ("more", {"p": 2}, "two")], "b")]
    before += [said("assistant", "Hi."), said("user", "Go.")] if asked_again else []
    after = [said("assistant", "So."), *turns([("other", {"p": 3}, "three")], "z"), said("assistant", "That is all.")]
    around = facts(detect(Episode(log_of([*before, *turns(made), *after]))), len(before))
    loops = {finding for finding in alone if finding[0] in LOOPS}
    assert loops <= around


@given(calls, st.permutations(["s", "t", "u"]))
def test_what_tools_are_called_makes_no_difference(made, names):
    renamed = dict(zip("stu", (f"{name}_tool" for name in names), strict=True))
    schema = {
        "type": "object",
        "required": ["q"],
        "additionalProperties": False,
        "properties": {"q": {"type": "string"}},
    }
    tools = {"s": {"parameters": schema}, "t": {}}

    def found(name_of):
        events = [said("user", "Go."), *turns([(name_of(n), a, r) for n, a, r in made]), said("assistant", "It is 4.")]
        return facts(detect(Episode(log_of(events, {name_of(n): tool for n, tool in tools.items()}))))

    assert found(lambda name: name) == found(renamed.__getitem__)


def test_what_is_nested_deeper_than_anybody_looks_is_equal_to_nothing_else():
    deep = json.loads("[" * 300 + "]" * 300)
    log = log_of([said("user", "Go."), *turns([("s", {"q": deep}, {"r": deep})] * 4), said("assistant", "Done.")])
    assert {f[0] for f in facts(detect(Episode(log)))} == {"identical_loop"}


@pytest.mark.parametrize("piece", ["a-", "a_", "1-a/", "i am ", "/a", "x@"])
def test_no_answer_takes_longer_than_in_proportion_to_its_length(piece):
    long = piece * (80_000 // len(piece))
    log = log_of([said("user", long), *turns([("s", {"q": long}, long)]), said("assistant", long)])
    assert len(detect(Episode(log))) == len(DETECTORS)
