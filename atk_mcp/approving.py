"""Asks a person at a terminal: during `atk call`, and with `atk approve` about what an agent's client could not ask."""

from __future__ import annotations

import sys

from atk_mcp.terminal import complain, say, typed
from operations import confirming
from operations.confirming import Answer, Ask, Question
from storage.errors import AtkError, NextCall
from storage.project import Project
from storage.schema.approvals import Approval

WORD = "yes"


class NoTerminal(AtkError):
    """Only a person can approve, and there is none at the other end."""

    message = "`atk approve` asks the person at a terminal, and stdin is no terminal. Run it in a terminal of your own."
    next_calls = (NextCall("get_status"),)


def at_terminal() -> Ask | None:
    """Returns how to ask the person at this terminal, or None where there is no person."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else None


def approve(root: str, approval_id: str | None, *, decline: bool) -> bool:
    """Shows what waits for a person, or takes the answer to one question. Returns whether it is allowed or shown.

    Raises:
        NoTerminal: stdin is no terminal.
        UnknownObject: There is no such question.
        ApprovalAnswered: It was answered already.
    """
    project = Project.open(root)
    if approval_id is None:
        return _listed(confirming.waiting(project.state()))
    found = project.state().get(Approval, approval_id)
    if found.status != "open":
        raise confirming.ApprovalAnswered(approval_id=found.id, status=found.status)
    if not decline:
        if at_terminal() is None:
            raise NoTerminal
        decline = _ask_text(found.question) != "accept"
    made, warnings = confirming.answer(project, found.id, approve=not decline, at=project.clock())
    say(f"{made.id} is {made.status}." + ("" if decline else " It serves for one call: let the agent make it again."))
    for line in warnings:
        complain(f"warning: {line}")
    return not decline


def _listed(found: list[Approval]) -> bool:
    for approval in found:
        say(f"{approval.id}  {approval.asked_at[:19]}  {approval.operation}: {approval.question}")
    say("Answer with `atk approve ID`, or `atk approve ID --decline`." if found else "Nothing waits for a person.")
    return True


def _ask(question: Question) -> Answer:
    return _ask_text(question.text)


def _ask_text(text: str) -> Answer:
    complain(f"\n{text}")
    said = typed(f"Type {WORD} to allow it, anything else to refuse: ")
    return "accept" if said.lower() == WORD else "decline"
