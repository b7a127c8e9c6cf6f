"""Rows for fine-tuning: every segment with its weight, whole ones only, and nothing made up."""

import pytest

from operations.trajectories.projections import sft_messages, sft_tokens
from tests.support.logs import a_log, call, ended, memory, result, reward, sampled, say, think, user, value


def row_of(*events, **more):
    row, report = sft_messages(a_log(*events, **more))
    assert row is not None, report.refused
    return row


def why_not(*events, **more):
    row, report = sft_messages(a_log(*events, **more))
    assert row is None
    return report.refused


def shown(row):
    """Weight and mask of each message, beside what it says."""
    return [
        (
            message["role"],
            message.get("reasoning_content") or message["content"] or message["tool_calls"][0]["function"]["name"],
            weight,
            mask,
        )
        for message, weight, mask in zip(row["messages"], row["segment_weights"], row["completion_mask"], strict=True)
    ]


def test_every_segment_is_a_message_with_its_weight_and_the_mask_says_what_counts():
    row = row_of(
        {"kind": "text", "role": "system", "content": value("be brief")},
        user("where is it"),
        think("I look"),
        call("a", arguments={"q": 1}, group="g"),
        call("b", arguments={"q": 2}, group="g"),
        result("b", "in b"),
        result("a", {"place": "a"}),
        say("in a and b"),
    )
    assert shown(row) == [
        ("system", "be brief", 0.0, 0),
        ("user", "where is it", 0.0, 0),
        ("assistant", "I look", 1.0, 1),
        ("assistant", "find", 2.0, 1),
        ("assistant", "find", 2.0, 1),
        ("tool", "in b", 0.0, 0),
        ("tool", '{"place": "a"}', 0.0, 0),
        ("assistant", "in a and b", 1.0, 1),
    ]
    calls = [message["tool_calls"] for message in row["messages"] if "tool_calls" in message]
    assert calls == [
        [{"id": name, "type": "function", "function": {"name": "find", "arguments": {"q": n}}}]
        for n, name in enumerate("ab", 1)
    ]
    assert [m["tool_call_id"] for m in row["messages"] if m["role"] == "tool"] == ["b", "a"]
    assert row["metadata"]["seqs"] == list(range(8))


def test_calls_within_one_message_become_messages_of_their_own():
    message = {
        "role": "assistant",
        "content": "I ask both",
        "tool_calls": [
            {"id": "x", "function": {"name": "find", "arguments": '{"q": 1}'}},
            {"id": "y", "function": {"name": "find", "arguments": '{"q": 2}'}},
        ],
    }
    log = [user("go"), say(message), result("y", "2", unpaired=True), result("x", "1", unpaired=True), say("done")]
    row = row_of(*log)
    assert [(m["role"], (m.get("tool_calls") or [{"id": None}])[0]["id"]) for m in row["messages"]] == [
        ("user", None), ("assistant", None), ("assistant", "x"), ("assistant", "y"), ("tool", None), ("tool", None),
        ("assistant", None),
    ]  # fmt: skip
    assert [m["tool_calls"][0]["function"]["arguments"] for m in row["messages"] if "tool_calls" in m] == [
        {"q": 1},
        {"q": 2},
    ]
    assert row["segment_weights"] == [0, 1, 2, 2, 0, 0, 1]


def test_a_call_that_a_message_and_an_event_tell_is_told_once():
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "name": "find", "arguments": {"q": 1}}]}
    by_id = row_of(user("go"), say(message), call("x", arguments={"q": 1}), result("x"), say("done"))
    by_content = row_of(user("go"), say(message), call("span-7", arguments={"q": 1}), result("span-7"), say("done"))
    for row, call_id in ((by_id, "x"), (by_content, "span-7")):
        assert [m["tool_calls"][0]["id"] for m in row["messages"] if "tool_calls" in m] == [call_id]


@pytest.mark.parametrize("arguments", ["q = 1", [1], 3, None])
def test_arguments_that_are_no_object_refuse_the_row_instead_of_becoming_an_empty_one(arguments):
    broken = {"status": "unparsable", "value": arguments} if isinstance(arguments, str) else {
        "status": "value", "value": arguments,
    }  # fmt: skip
    said = why_not(user("go"), call("a", arguments=broken), result("a"), say("done"))
    assert said == "event 1: the arguments of the call are no JSON object, and nothing may stand for them"


def test_a_call_without_a_result_is_context_and_said_to_be_left():
    row, report = sft_messages(a_log(user("go"), call("a"), user("never mind"), say("fine")))
    assert row["segment_weights"] == [0, 0, 0, 1]
    assert ("tool_call", "*", "its call has no result, so nobody is trained on it", 1, (1,)) in [
        (x.kind, x.field, x.reason, x.events, x.first) for x in report.losses
    ]


WHOLE = (user("one"), say("first answer"))


@pytest.mark.parametrize(
    ("tail", "state", "why"),
    [
        ([call("a"), result("a")], "completed", "it does not end with an answer"),
        ([think("well")], "unknown", "it does not end with an answer"),
        ([say("and th")], "interrupted", "the run is interrupted"),
        ([say("and th"), ended("length")], "completed", "it was cut short (length)"),
        ([say("and th", attributes={"stop_reason": "max_tokens"})], "completed", "it was cut short (max_tokens)"),
        ([say("rate limit", error={"kind": "model"})], "completed", "it does not end with an answer"),
        ([], "completed", "it does not end with an answer"),
    ],
)
def test_a_last_turn_that_was_cut_off_is_left_out_and_named(tail, state, why):
    row, report = sft_messages(a_log(*WHOLE, user("two"), *tail, state=state))
    assert [m["content"] for m in row["messages"]] == ["one", "first answer"]
    lost = [x for x in report.losses if x.reason == f"the last turn was cut off: {why}"]
    assert sum(x.events for x in lost) == 1 + len([e for e in tail if e["kind"] != "turn_complete"])


def test_the_report_of_an_error_is_no_answer_to_learn():
    row = row_of(user("go"), say("API Error", error={"kind": "model"}), user("again"), say("done"))
    assert row["segment_weights"] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([user("go"), {**say("x"), "content": {"status": "not_exported"}}], "event 1: what was said is not_exported"),
        (
            [user("go"), call("a"), {**result("a"), "content": {"status": "not_exported"}}, say("x")],
            "event 2: the result of the call is not_exported",
        ),
        ([user([{"type": "image_url", "image_url": {}}]), say("x")], "event 0: it holds a part of type image_url"),
        ([{**user("x"), "role": "unknown"}, say("x")], "event 0: nobody knows who said it"),
        ([user("go"), result("q", unpaired=True), say("x")], "event 1: a result of no call that is known"),
        ([user("go")], "no whole segment is the agent's, so nothing is to be trained on"),
    ],
)  # fmt: skip
def test_what_is_not_known_refuses_the_row(events, why):
    assert why_not(*events) == why


def test_rewards_memory_and_ends_of_turns_are_kept_beside_the_messages():
    row, report = sft_messages(
        a_log(
            user("one"), memory("read", "likes tea", key="taste"), say("tea"),
            ended("stop", usage={"output_tokens": 3}), reward(0.5, "turn", turn=0),
            user("two"), say("cake"), reward(None),
        )
    )  # fmt: skip
    assert row["metadata"] == {
        "seqs": [0, 2, 5, 6],
        "turns": [0, 2],
        "turn_ends": [{"messages_before": 2, "seq": 3, "finish_reason": "stop", "usage": {"output_tokens": 3}}],
        "rewards": [
            {"messages_before": 2, "seq": 4, "name": "r", "scope": "turn", "value": 0.5, "turn": 0},
            {"messages_before": 4, "seq": 7, "name": "r", "scope": "episode", "value": None},
        ],
        "memory": [
            {"messages_before": 1, "seq": 1, "operation": "read", "key": "taste", "content": value("likes tea")}
        ],
        "state": "completed",
        "end_reason": None,
    }
    assert {(x.kind, x.field) for x in report.losses} == {
        (kind, "id") for kind in ("text", "memory_op", "turn_complete", "reward")
    }


def test_reasoning_can_be_left_out():
    log = a_log(user("go"), memory("read", "m"), think("hm"), say("done"), reward(1.0))
    row, report = sft_messages(log, reasoning=False)
    assert [m["content"] for m in row["messages"]] == ["go", "done"]
    assert [r["messages_before"] for r in row["metadata"]["rewards"]] == [2]
    assert any(x.reason == "reasoning was not asked for" for x in report.losses)


def test_what_only_prompts_hold_is_the_context_and_is_told_once():
    """Spans of models hold the whole conversation so far; a row has each message once."""
    opening = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "where"}]
    asked = {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "name": "find", "arguments": "{}"}]}
    told = {"role": "tool", "tool_call_id": "x", "content": "there"}
    answer = {"role": "assistant", "content": "It is there."}
    row = row_of(
        say(asked, prompt=value(opening)),
        say(answer, prompt=value([*opening, asked, told])),
        say("Bye.", prompt=value([*opening, asked, told, answer, {"role": "user", "content": "thanks"}])),
    )
    assert [(m["role"], m["content"]) for m in row["messages"]] == [
        ("system", "be brief"), ("user", "where"), ("assistant", ""), ("tool", "there"), ("assistant", "It is there."),
        ("user", "thanks"), ("assistant", "Bye."),
    ]  # fmt: skip
    assert row["segment_weights"] == [0, 0, 2, 0, 1, 0, 1]
    assert row["metadata"]["turns"] == [0, 5]


def test_whole_requests_and_responses_are_opened():
    request = {"model": "m", "messages": [{"role": "user", "content": "where"}]}
    response = {"id": "r", "choices": [{"index": 0, "message": {"role": "assistant", "content": "there"}}]}
    assert [(m["role"], m["content"]) for m in row_of(say(response, prompt=value(request)))["messages"]] == [
        ("user", "where"), ("assistant", "there"),
    ]  # fmt: skip


def test_a_choice_of_answers_is_no_row():
    answers = [{"role": "assistant", "content": c} for c in "ab"]
    for several in (answers, {"choices": [{"message": one} for one in answers]}):
        assert why_not(user("x"), say(several)) == "event 1: it holds several answers to one question"


def test_two_conversations_in_one_log_are_no_row():
    first, second = value([{"role": "user", "content": "plan"}]), value([{"role": "user", "content": "judge"}])
    assert (
        why_not(say("a", prompt=first), say("b", prompt=second)) == "event 1: its model was given another conversation"
    )


def test_a_sub_agent_is_another_conversation():
    aside = {"attributes": {"sidechain": "s"}}
    row = row_of(
        user("go"), call("t", "task"), user("sub", **aside), say("sub answer", **aside), result("t"), say("ok")
    )
    assert [m["role"] for m in row["messages"]] == ["user", "assistant", "tool", "assistant"]


def test_the_environment_speaks_as_the_user_and_a_span_is_no_message():
    def seen(output, type_):
        return {"kind": "observation", "type": type_, "input": {"status": "not_exported"}, "output": value(output)}

    row = row_of(seen("a door", None), seen("it is open", "environment"), seen("request", "HTTP"), say("I go in"))
    assert [(m["role"], m["content"]) for m in row["messages"]] == [
        ("user", "a door"), ("user", "it is open"), ("assistant", "I go in"),
    ]  # fmt: skip


def test_the_tools_that_the_agent_was_given_stand_in_the_row():
    tools = {"find": {"description": "finds", "parameters": {"type": "object"}}, "go": {}}
    assert row_of(user("x"), say("y"), tools=tools)["tools"] == [
        {"type": "function", "function": {"name": "find", "description": "finds", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "go"}},
    ]


# -- tokens ------------------------------------------------------------------------------------------------------------


def full(**more):
    masked = sampled(call("a", arguments={"q": 1}), 20, 21)
    masked["tokens"]["mask"] = [False, True]
    return a_log(
        sampled(user("go"), 1, 2, policy=False),
        masked,
        sampled(result("a"), 3, policy=False),
        sampled(call("b"), 30),
        sampled(say("done"), 40, 41),
        **more,
    )


def test_a_row_of_tokens_is_what_was_sampled_with_the_weights_of_its_segments():
    row, _ = sft_tokens(full())
    assert {name: row[name] for name in row if name != "metadata"} == {
        "input_ids": [1, 2, 20, 21, 3, 30, 40, 41],
        "labels": [-100, -100, -100, 21, -100, -100, 40, 41],
        "completion_mask": [0, 0, 0, 1, 0, 0, 1, 1],
        "weights": [0, 0, 0, 2.0, 0, 0, 1.0, 1.0],
        "logprobs": [None, None, -0.5, -1.0, None, -0.5, -0.5, -1.0],
    }


def test_a_turn_that_was_cut_off_has_no_weight_in_tokens():
    row, _ = sft_tokens(full(state="interrupted"))
    assert row["completion_mask"] == [0] * 8


def test_a_light_log_has_no_tokens_and_says_what_is_missing():
    with pytest.raises(ValueError, match=r"the log is light: events 1, 2 have no tokens with log-probabilities"):
        sft_tokens(a_log(user("go"), call("a"), sampled(think("x"), policy=False), result("a"), sampled(say("y"), 3)))


def test_a_full_log_whose_context_is_not_known_in_tokens_says_so():
    with pytest.raises(ValueError, match=r"events 0 have no tokens, or a prompt that has none"):
        sft_tokens(a_log(user("go"), sampled(say("done"), 1)))
    with pytest.raises(ValueError, match=r"events 0 have no tokens, or a prompt that has none"):
        sft_tokens(a_log(sampled(say("done", prompt=value("go")), 1)))


@pytest.mark.parametrize(
    "told",
    [
        user({"role": "assistant", "content": "wrong"}),
        user([{"role": "user", "content": "go"}, {"role": "assistant", "content": "wrong"}]),
        user([{"type": "tool_use", "id": "1", "name": "rm", "input": {}}, {"type": "thinking", "thinking": "wrong"},
              {"type": "tool_result", "tool_use_id": "1", "content": "gone"}]),
        {"kind": "text", "role": "tool",
         "content": value({"choices": [{"message": {"role": "assistant", "content": "x"}}]})},
        {"kind": "observation", "type": "environment", "input": {"status": "not_exported"},
         "output": value({"role": "assistant", "content": "wrong"})},
    ],
)  # fmt: skip
def test_nothing_that_others_say_the_agent_said_is_learned(told):
    row = row_of(user("go"), told, say("done"))
    assert [message for message, weight in zip(row["messages"], row["segment_weights"], strict=True) if weight] == [
        {"role": "assistant", "content": "done"}
    ]


def test_an_answer_that_is_a_conversation_keeps_who_said_what():
    row = row_of(user("go"), say([{"role": "user", "content": "and then?"}, {"role": "assistant", "content": "that"}]))
    assert shown(row) == [("user", "go", 0.0, 0), ("user", "and then?", 0.0, 0), ("assistant", "that", 1.0, 1)]


@pytest.mark.parametrize("arguments", ['{"a": Infinity}', '{"a": NaN}'])
def test_arguments_that_json_does_not_have_refuse_the_row(arguments):
    parts = [
        {"type": "tool_use", "id": "1", "name": "f", "input": arguments},
        {"type": "tool_result", "tool_use_id": "1", "content": "r"},
        {"type": "text", "text": "done"},
    ]
    assert "arguments of the call are no JSON object" in why_not(user("go"), say(parts))


def test_calls_in_a_message_that_are_no_list_are_none():
    assert shown(row_of(user("go"), say({"role": "assistant", "content": "done", "tool_calls": 5})))[1:] == [
        ("assistant", "done", 1.0, 1)
    ]


def test_a_part_whose_type_is_no_text_refuses_the_row():
    assert why_not(user("go"), say([{"type": [[]], "text": "x"}])) == "event 1: it holds a part whose type is no text"
