"""Takes the Revision at which one Round ended as the baseline of the next, where it is still what is there."""

from __future__ import annotations

from dataclasses import dataclass

from storage.errors import AtkError, NextCall
from storage.schema.candidates import Candidate
from storage.schema.projects import Project
from storage.schema.rounds import Revision, Round
from storage.transaction import Transaction
from storage.worktree import Head, Surroundings


@dataclass(kw_only=True, eq=False)
class PreviousRoundMissing(AtkError):
    """A Revision is to be reused, and nothing says of which Round."""

    message = "reuse_revision needs previous_round_id: the Round that is over and whose last Revision is taken."
    next_calls = (NextCall("get_status", supply={"arguments": "its Rounds that are over can be previous_round_id"}),)


@dataclass(kw_only=True, eq=False)
class RevisionNotReusable(AtkError):
    """The baseline cannot be the Revision at which the previous Round ended."""

    message = (
        "The Revision at which {round_id} ended cannot be the baseline: {problem}. Leave reuse_revision out: the Round "
        "then has a baseline of its own."
    )
    next_calls = (NextCall("create_round", {"previous_round_id": "{round_id}"}),)

    round_id: str
    problem: str


def reused(
    previous_round_id: str | None, tx: Transaction, project: Project, head: Head, around: Surroundings
) -> Revision:
    """Returns the Revision at which the previous Round ended, where nothing has changed since.

    Raises:
        PreviousRoundMissing: No Round is named.
        RevisionNotReusable: It says what has changed.
    """
    if previous_round_id is None:
        raise PreviousRoundMissing
    previous = tx.state.get(Round, previous_round_id)
    problem = None
    if previous.without_baseline or previous.plan is None:
        problem = "it had no plan, so nothing says what was run as it"
    elif (head.commit, head.branch) != (previous.current_commit, previous.branch):
        problem = f"it ended at {previous.current_commit[:12]} on {previous.branch}, and HEAD is elsewhere"
    elif previous.plan.run_config_digest != project.run_config_digest:
        problem = "the project is configured otherwise now"
    elif _besides(previous, tx, Surroundings.model_validate(previous.surroundings)) != _besides(previous, tx, around):
        problem = "the files around it are not as they were then"
    if problem:
        raise RevisionNotReusable(round_id=previous.id, problem=problem)
    return tx.state.get(Revision, previous.current_revision_id)


def _besides(previous: Round, tx: Transaction, around: Surroundings) -> list[dict[str, str]]:
    """Returns the fingerprints of what lies around a Revision, besides what the Round's candidates changed."""
    changed = {c["path"] for x in tx.state.all(Candidate) if x.round_id == previous.id for c in x.changes}
    return [around.dirty, around.untracked, {p: f for p, f in around.inputs.items() if p not in changed}]
