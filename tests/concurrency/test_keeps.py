"""The same decision asked twice at once: one commit, one Decision, and nobody is told of a second."""

import pytest

from storage.schema.candidates import Decision
from storage.schema.rounds import Round
from tests.faults.story import Wire
from tests.support.projects import FIX, Target
from tests.support.rounds import judged


@pytest.fixture
def target(tmp_path):
    return Target(tmp_path / "target")


@pytest.fixture
def decision(target):
    candidate_id = judged(target)
    asked = {"candidate_id": candidate_id, "round_id": target.state.all(Round)[-1].id, "reason": "passed"}
    return {**asked, "action": "keep"}


def answers(target, requests):
    """Sends each request through a server of its own, all at once. Returns the results."""
    servers = [Wire(target.root) for _ in requests]
    try:
        for server in servers:
            server.done("get_status")
        numbers = [server.begin("decide_candidate", **r) for server, r in zip(servers, requests, strict=True)]
        return [server.answer(number)["result"] for server, number in zip(servers, numbers, strict=True)]
    finally:
        for server in servers:
            server.__exit__()


def assert_kept_once(target, before):
    assert target.git("rev-list", f"{before}..HEAD").split() == [target.head]
    assert target.read("prompt.txt") == FIX
    assert target.git("status", "--porcelain") == ""
    assert len(target.state.all(Decision)) == 1
    assert not target.state.intents


def test_of_two_different_decisions_at_once_one_is_made_and_the_other_is_refused(target, decision):
    before = target.head
    results = answers(target, [decision, {**decision, "reason": "also passed"}])
    [refused] = [r["structuredContent"] for r in results if r["isError"]]
    [made] = [r["structuredContent"] for r in results if not r["isError"]]
    assert refused["code"] in ("resource_busy", "wrong_candidate")
    assert made["commit"] == target.head
    assert_kept_once(target, before)


def test_the_same_decision_sent_twice_under_one_request_id_is_made_once(target, decision):
    before = target.head
    decision["request_id"] = "the-keep"
    results = answers(target, [decision, decision])
    made = [r["structuredContent"] for r in results if not r["isError"]]
    assert made
    again = target.call("decide_candidate", **decision)
    assert {m["decision_id"] for m in made} == {again.decision_id}
    assert_kept_once(target, before)
