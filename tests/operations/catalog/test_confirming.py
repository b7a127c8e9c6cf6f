"""A person's word is asked of the person: in the client's dialog, or in a terminal; what nobody allowed is not done."""

import json
import os
import pty
import shutil
import sys
from contextlib import contextmanager

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitResult

from atk_mcp import inspector
from atk_mcp.server import build_server
from operations.invocation import invoke
from operations.registry import all_operations
from storage.schema.approvals import Approval
from storage.schema.candidates import Decision
from storage.schema.projects import Project as ProjectRecord
from tests.operations.catalog.stages import AUTHORIZED
from tests.support.projects import PROMPT
from tests.support.rounds import store

MODES = ("auto", "legacy")


@pytest.fixture(scope="module")
def ready(stages, tmp_path_factory):
    """A candidate that changes nothing, compared: only a person's word can keep it."""
    target = stages.copy("drafted", str(tmp_path_factory.mktemp("override") / "target"))
    target.write("prompt.txt", PROMPT + "nothing -> other\n")
    target.seal()
    target.ids["left_batch_id"], target.ids["left_assessment_id"] = target.run(target.b0)
    target.ids["right_batch_id"], target.ids["right_assessment_id"] = target.run(target.revision_id)
    assert target.compare().result == "no_effect"
    return target


@pytest.fixture
def target(ready, tmp_path):
    root = str(tmp_path / "target")
    shutil.copytree(ready.root, root, symlinks=True)
    return type(ready)(root, dict(ready.ids))


def keep(target, **more):
    return {
        "project_path": target.root,
        "round_id": target.round_id,
        "candidate_id": target.candidate_id,
        "action": "keep",
        "reason": "we want it",
        "override": True,
        "override_authorization": {**AUTHORIZED, "action": "trial_commit"},
        **more,
    }


def decisions(target):
    return target.state.all(Decision)


def approvals(target):
    return target.state.all(Approval)


def demand_confirmation(target):
    configured = target.state.all(ProjectRecord)[0]
    store(target, configured.model_copy(update={"require_confirmation": True}))


def called(target, mode, answer=None, **more):
    """Calls decide_candidate over MCP with a client that answers as told. Returns (result, what it was asked)."""
    asked = []

    async def dialog(_, params):
        asked.append(params.message)
        return answer

    async def run():
        how = {} if answer is None else {"elicitation_callback": dialog}
        async with Client(build_server(all_operations()), mode=mode, **how) as client:
            return await client.call_tool("decide_candidate", keep(target, **more))

    return anyio.run(run), asked


ALLOW = ElicitResult(action="accept", content={"allow": True})


@pytest.mark.parametrize("mode", MODES)
def test_person_who_allows_it_in_the_clients_dialog_is_on_record(target, mode):
    result, asked = called(target, mode, ALLOW)
    assert not result.is_error, result.content
    assert len(asked) == 1
    assert "no_effect" in asked[0]
    assert AUTHORIZED["risk"] in asked[0]
    (decision,) = decisions(target)
    assert decision.override_authorization.recorded_as == "confirmed_in_client"
    assert approvals(target) == []


REFUSED = {
    "declined": ElicitResult(action="decline"),
    "cancelled": ElicitResult(action="cancel"),
    "the box left empty": ElicitResult(action="accept", content={"allow": False}),
    "accepted by a program, without the field": ElicitResult(action="accept", content={}),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", REFUSED.values(), ids=list(REFUSED))
def test_what_the_person_does_not_allow_is_not_done_and_stays_open_for_a_terminal(target, mode, answer):
    before = target.head
    result, _ = called(target, mode, answer)
    assert result.structured_content["code"] == "not_confirmed"
    (approval,) = approvals(target)
    assert approval.status == "open"
    assert f"atk approve {approval.id}" in result.structured_content["message"]
    assert decisions(target) == []
    assert target.head == before
    called(target, mode, answer)
    assert len(approvals(target)) == 1, "the same question is asked once"


@pytest.mark.parametrize("mode", MODES)
def test_without_a_dialog_the_clients_report_counts_and_is_shown_as_one(target, mode):
    result, _ = called(target, mode)
    assert not result.is_error
    assert decisions(target)[0].override_authorization.recorded_as == "reported_by_client"
    assert "client reports" in result.structured_content["warnings"][0]


@pytest.mark.parametrize("mode", MODES)
def test_project_that_demands_confirmation_takes_no_report_for_it(target, mode):
    demand_confirmation(target)
    result, _ = called(target, mode)
    assert result.structured_content["code"] == "not_confirmed"
    assert decisions(target) == []


@contextmanager
def at_a_terminal(typed):
    """Gives this process a terminal as stdin and stderr at which somebody has typed."""
    master, slave = pty.openpty()
    os.write(master, typed.encode())
    with (
        pytest.MonkeyPatch.context() as patched,
        os.fdopen(os.dup(slave), "r", encoding="utf-8") as stdin,
        os.fdopen(slave, "w", encoding="utf-8") as stderr,
    ):
        patched.setattr(sys, "stdin", stdin)
        patched.setattr(sys, "stderr", stderr)
        yield
    os.close(master)


def test_what_was_approved_in_a_terminal_is_done_once(target, capsys):
    demand_confirmation(target)
    called(target, "legacy")
    (approval,) = approvals(target)
    with at_a_terminal("yes\n"):
        assert inspector.main(["approve", approval.id, "--project", target.root]) == 0
    assert "is approved" in capsys.readouterr().out

    other = keep(target, override_authorization={**AUTHORIZED, "action": "trial_commit", "risk": "another one"})
    with pytest.raises(Exception, match="A person has to allow this"):
        invoke(all_operations()["decide_candidate"], other)
    invoke(all_operations()["decide_candidate"], keep(target))
    (decision,) = decisions(target)
    assert decision.override_authorization.recorded_as == "approved_in_terminal"
    assert target.state.get(Approval, approval.id).status == "used"


@pytest.mark.parametrize("typed", ["no\n", "\n", "y\n"])
def test_anything_but_yes_declines_in_a_terminal(target, typed):
    demand_confirmation(target)
    called(target, "legacy")
    (approval,) = approvals(target)
    with at_a_terminal(typed):
        assert inspector.main(["approve", approval.id, "--project", target.root]) == 1
    assert target.state.get(Approval, approval.id).status == "declined"
    called(target, "legacy")
    assert decisions(target) == []


def test_agent_without_a_terminal_cannot_approve(target, monkeypatch, capsys):
    demand_confirmation(target)
    called(target, "legacy")
    (approval,) = approvals(target)
    read, write = os.pipe()
    os.write(write, b"yes\n")
    os.close(write)
    with os.fdopen(read, "r", encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        status = inspector.main(["approve", approval.id, "--project", target.root])
    assert status == 1
    assert "no_terminal" in capsys.readouterr().err
    assert target.state.get(Approval, approval.id).status == "open"


def test_what_waits_is_listed_and_an_answered_question_is_not_answered_again(target, capsys):
    demand_confirmation(target)
    called(target, "legacy")
    (approval,) = approvals(target)
    assert inspector.main(["approve", "--project", target.root]) == 0
    assert approval.id in capsys.readouterr().out
    assert inspector.main(["approve", approval.id, "--decline", "--project", target.root]) == 0
    assert inspector.main(["approve", approval.id, "--project", target.root]) == 1
    assert "approval_answered" in capsys.readouterr().err


def test_a_question_about_a_candidate_that_was_decided_since_waits_no_more(target, capsys):
    demand_confirmation(target)
    called(target, "legacy")
    assert len(target.call("get_status").open_approvals) == 1

    target.decide("reject")

    assert target.call("get_status").open_approvals == []
    assert inspector.main(["approve", "--project", target.root]) == 0
    assert capsys.readouterr().out == "Nothing waits for a person.\n"


def test_person_at_atk_call_is_asked_there(target, capsys):
    with at_a_terminal("yes\n"):
        status = inspector.main(["call", "decide_candidate", "--request", json.dumps(keep(target))])
    assert status == 0
    assert decisions(target)[0].override_authorization.recorded_as == "confirmed_in_client"
    assert "the person confirmed it" in capsys.readouterr().out
