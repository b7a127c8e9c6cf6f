"""Asks a person before something out of the ordinary: by the client's own dialog, or later in a terminal.

A handler says what it wants to know with `confirmed`, before it writes anything. Where nobody has answered yet it
raises `NeedsConfirmation`; who runs the handler asks, without holding the lock, and runs it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from operations.context import Context
from operations.definition import Response
from storage.errors import AtkError, NextCall
from storage.frames import canonical, digest
from storage.project import Project
from storage.projection import State
from storage.schema.approvals import Approval, HowConfirmed
from storage.schema.candidates import Candidate
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import CLOSED, Round
from storage.transaction import Call, Transaction

Answer = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a person is asked."""

    operation: str
    subject: str
    """The id of the object that it is about."""
    text: str
    """The question in sentences, with what is known and what it risks."""
    facts: Mapping[str, Any]
    """Everything that the answer depends on, as JSON."""

    @property
    def digest(self) -> str:
        """Identifies the question: the same facts are the same question."""
        return digest(canonical([self.operation, self.subject, dict(self.facts)]))


_QUOTED = 300
"""How many characters of a caller's words a question repeats."""


def quoted(text: str | None) -> str:
    """Returns a caller's words for a question: in marks that they cannot close, on one line, and cut.

    They are the words of whoever wants to be allowed something, so they must not pass for a sentence of ATK's, nor push
    the question out of sight.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text or "").split())
    line = line.translate({ord("“"): "'", ord("”"): "'"})
    return f"“{line}”" if len(line) <= _QUOTED else f"“{line[:_QUOTED]}…” ({len(line) - _QUOTED} characters more)"


def grounds(reason: str | None, risk: str | None) -> str:
    """Returns the sentence that repeats what the client gave for grounds."""
    return f"The client gives as reason {quoted(reason)} and as risk {quoted(risk)}."


Ask = Callable[[Question], Answer]
"""Puts a question to the person behind the call, and waits for the answer."""


TOLD: dict[HowConfirmed, str] = {
    "reported_by_client": "the client reports that the person authorized it; ATK could not ask",
    "confirmed_in_client": "the person confirmed it when asked",
    "approved_in_terminal": "the person approved it in a terminal",
}
"""How an authorization is shown."""


class NeedsConfirmation(Exception):
    """A handler cannot go on before a person has answered."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.text)
        self.question = question


@dataclass(kw_only=True, eq=False)
class NotConfirmed(AtkError):
    """A person has to allow this, and nobody has. Nothing was done; the question stays open."""

    message = (
        "A person has to allow this, and {answer}: {question} Nothing was done. They can allow it in a terminal with "
        "`atk approve {approval_id}`; then make the same call again."
    )
    next_calls = (NextCall("{operation}", supply={"arguments": "the same, once `atk approve {approval_id}` was run"}),)

    operation: str
    approval_id: str
    answer: str
    question: str


@dataclass(kw_only=True, eq=False)
class ApprovalAnswered(AtkError):
    """The question was answered already."""

    message = "{approval_id} is {status} already. A new question is asked when the call is made again."
    next_calls = (NextCall("get_status"),)

    approval_id: str
    status: str


def confirmed(question: Question, context: Context, tx: Transaction) -> HowConfirmed:
    """Returns how it is known that a person allows this; an approval given in a terminal is used up.

    Raises:
        NeedsConfirmation: Nobody has answered yet, and there is somebody to ask or the project demands it.
    """
    if question.digest in context.confirmed:
        return "confirmed_in_client"
    for approval in tx.state.all(Approval):
        if approval.question_digest == question.digest and approval.status == "approved":
            tx.put(approval.model_copy(update={"status": "used"}))
            return "approved_in_terminal"
    if context.can_ask or any(project.require_confirmation for project in tx.state.all(ProjectRecord)):
        raise NeedsConfirmation(question)
    return "reported_by_client"


def require_word(known: ProjectRecord, revised: ProjectRecord, context: Context, tx: Transaction) -> None:
    """Asks the person before a new configuration no longer demands that a person is asked.

    Raises:
        NeedsConfirmation: Nobody has answered yet.
    """
    if revised.require_confirmation or not known.require_confirmation:
        return
    question = Question(
        operation="initialize_project",
        subject=known.id,
        text=(
            f"Set require_confirmation of {known.id} to false? From then on a client's report that a person authorized "
            "an override counts where ATK cannot ask."
        ),
        facts={"action": "stop_requiring_confirmation", "run_config_digest": revised.run_config_digest},
    )
    confirmed(question, context, tx)


class AskedResponse(Response):
    """What the journal holds of a question."""

    approval_id: str


def leave_open(project: Project, question: Question, at: str) -> Approval:
    """Records a question that nobody answered, once, and returns it."""
    call = Call(operation="ask_person", arguments={"question": question.text}, request_id=None, at=at)
    with project.transaction(call) as tx:
        for known in tx.state.all(Approval):
            if known.question_digest == question.digest and known.status in ("open", "approved"):
                return known
        approval = tx.put(
            Approval(
                id=tx.new_id("approval"),
                status="open",
                operation=question.operation,
                subject=question.subject,
                question=project.masker.text(question.text),
                question_digest=question.digest,
                asked_at=at,
            )
        )
        tx.commit(AskedResponse(message=f"{approval.id} waits for a person.", approval_id=approval.id))
        return approval


def waiting(state: State) -> list[Approval]:
    """Returns the questions that wait for a person; one about what was decided since is asked no more."""
    return [approval for approval in state.all(Approval) if approval.status == "open" and not _decided(state, approval)]


def _decided(state: State, approval: Approval) -> bool:
    candidate, value = state.find(Candidate, approval.subject), state.find(Round, approval.subject)
    return (candidate is not None and candidate.status not in ("draft", "sealed")) or (
        value is not None and value.status in CLOSED
    )


def answer(project: Project, approval_id: str, *, approve: bool, at: str) -> tuple[Approval, list[str]]:
    """Records a person's answer. Returns the question with it, and warnings.

    Raises:
        UnknownObject: There is no such question.
        ApprovalAnswered: It does not wait any more.
    """
    status: Literal["approved", "declined"] = "approved" if approve else "declined"
    call = Call(
        operation="answer_question", arguments={"approval_id": approval_id, "answer": status}, request_id=None, at=at
    )
    with project.transaction(call) as tx:
        found = tx.state.get(Approval, approval_id)
        if found.status != "open":
            raise ApprovalAnswered(approval_id=approval_id, status=found.status)
        made = tx.put(found.model_copy(update={"status": status, "answered_at": at}))
        told = tx.commit(AskedResponse(message=f"{approval_id} is {status}.", approval_id=approval_id))
        return made, told.warnings
