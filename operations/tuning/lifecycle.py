"""Which step a Round or a Candidate may take next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from storage.errors import AtkError, NextCall
from storage.schema.candidates import Candidate
from storage.schema.projects import Project
from storage.schema.rounds import ACTIVE, Plan, Round

_PATHS = 8
"""How many paths of a kind a refusal names."""

_AFTER = {
    "analysis_only": "freeze_round freezes its plan",
    "ready": "prepare_candidate begins a change",
    "optimizing": "prepare_candidate, seal_candidate, decide_candidate and the final runs lead on",
    "finalizing": "the final runs, compare_and_gate with mode final and finish_round lead on",
    "paused": "transition_round with action resume goes on with it",
}

_OVER = {
    "rollback_to": (
        "it is over; git revert takes its commits back, the newest first (git log --grep ATK-Round has them)"
    ),
}
"""The way on from a Round that is over, by step, where it is not another Round."""

_OPEN_OR_PAUSED = ("analysis_only", "ready", "optimizing", "finalizing", "paused")
_ENDED_EARLY = ("closed_without_adoption", "abandoned")
_KEPT = ("completed", "completed_with_override")
FOLLOWS: Mapping[str, frozenset[str]] = {
    "analysis_only": frozenset({"ready", "paused", *_ENDED_EARLY}),
    "ready": frozenset({"optimizing", "finalizing", "paused", *_ENDED_EARLY}),
    "optimizing": frozenset({"finalizing", "paused", *_KEPT, *_ENDED_EARLY}),
    "finalizing": frozenset({"optimizing", "paused", *_KEPT, *_ENDED_EARLY}),
    "paused": frozenset({*_OPEN_OR_PAUSED, "abandoned"}),
}
"""Each state of a Round with those that may follow it, besides itself; what is over has none."""

WHILE_PAUSED = frozenset(
    {
        "transition_round",
        "finish_round",
        "inspect_or_recover_operation",
        "record_source_contract",
        "render_round_report",
    }
)
"""The operations on a Round that go on while it rests: what wakes it, gives it up, or only tells of it."""

_PUT_ASIDE = (
    "The Round stands at a commit, so these files have to be as it says. Restore them; or, if they are the change you "
    "want judged, put them aside with git stash (git stash -u takes new files along), call prepare_candidate, and "
    "bring them back with git stash pop: then they are the draft."
)
_SEAL_FIRST = "Seal it first, or cancel the draft."
_DECIDE_FIRST = (
    "Compare it and decide it; where a comparison cannot be had, reject it with validation_missing_reason, which puts "
    "its parent's files back."
)


@dataclass(kw_only=True, eq=False)
class WrongRoundStatus(AtkError):
    """The Round is not in a state that allows the step."""

    message: ClassVar[str] = "{round_id} is {status}, and {step} needs {needed}: {way_on}."
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status", {"round_id": "{round_id}"}),)

    round_id: str
    status: str
    step: str
    needed: list[str]
    way_on: str

    @property
    def next(self) -> tuple[NextCall, ...]:
        """A Round that rests goes on, or is given up."""
        if self.status != "paused":
            return super().next
        resume = NextCall("transition_round", {"round_id": self.round_id, "action": "resume"}, {"reason": "why now"})
        return (resume, NextCall("finish_round", {"round_id": self.round_id, "action": "abandon"}, {"reason": "why"}))


@dataclass(kw_only=True, eq=False)
class RoundWithoutBaseline(WrongRoundStatus):
    """The Round looks at evidence only, and the step needs a baseline."""

    message = (
        "{round_id} was opened from evidence alone and has no baseline, and {step} needs one. What is left to do in "
        "it: store_assessment, store_diagnosis, and finish_round with close_without_adoption. A Round with a baseline "
        "is created once initialize_project with revise: true has made the project one that can run its agent."
    )
    next_calls = (
        NextCall("store_diagnosis", {"round_id": "{round_id}"}, {"issues": "what fails and why"}),
        NextCall("finish_round", {"round_id": "{round_id}", "action": "close_without_adoption"}, {"reason": "why"}),
        NextCall("get_status", {"round_id": "{round_id}"}),
    )


@dataclass(kw_only=True, eq=False)
class AnotherRoundActive(AtkError):
    """A project has at most one active Round."""

    message = "{round_id} is {status}, and a project has one active Round at a time. Finish it first."
    next_calls = (NextCall("finish_round", {"round_id": "{round_id}"}, {"action": "how it ends", "reason": "why"}),)

    round_id: str
    status: str


@dataclass(kw_only=True, eq=False)
class CandidatePending(AtkError):
    """A Round has at most one undecided Candidate."""

    message = "{candidate_id} of {round_id} is {status} and not decided; {step} has to wait until it is. {way_on}"
    next_calls = (NextCall("read_record", {"record_id": "{candidate_id}"}),)

    round_id: str
    candidate_id: str
    status: str
    step: str
    way_on: str = ""

    @property
    def next(self) -> tuple[NextCall, ...]:
        """What decides the Candidate in the state that it is in, then what shows it."""
        named = {"round_id": self.round_id, "candidate_id": self.candidate_id}
        if self.status == "draft":
            ways = (NextCall("seal_candidate", named), NextCall("cancel_draft", named, {"reason": "why"}))
        else:
            ways = (NextCall("get_status", {"round_id": self.round_id}), rejecting(self.round_id, self.candidate_id))
        return (*ways, *super().next)


@dataclass(kw_only=True, eq=False)
class WrongCandidate(AtkError):
    """The step is not for this Candidate, or not in the state it is in."""

    message = "{candidate_id} is {status}; {step} needs {needed}. get_status says what can be done now."
    next_calls = (NextCall("read_record", {"record_id": "{candidate_id}"}), NextCall("get_status"))

    candidate_id: str
    status: str
    step: str
    needed: str


@dataclass(kw_only=True, eq=False)
class BaselineDrifted(AtkError):
    """HEAD or the branch is not where the Round left it."""

    message = (
        "HEAD is {head:.12} on {branch}, but {round_id} stands at {expected:.12} on {expected_branch}. "
        "Go back to that commit and branch, or end the Round with finish_round and action abandon."
    )
    next_calls = (
        NextCall(
            "finish_round", {"round_id": "{round_id}", "action": "abandon"}, {"reason": "why the Round is given up"}
        ),
    )

    round_id: str
    head: str
    branch: str
    expected: str
    expected_branch: str


@dataclass(kw_only=True, eq=False)
class FilesInTheWay(AtkError):
    """The scope of a Round holds changes that no commit has."""

    message = "Uncommitted changes inside allowed_paths: {paths}. {ways_out}"
    next_calls = (NextCall("create_round", {"adopt": "worktree"}), NextCall("get_status"))

    paths: list[str]
    round_id: str = ""
    """The open Round that they are in the way of, or nothing where none is open yet."""
    ways_out: str = (
        "The baseline has to be a commit there. Ways out: commit or restore them; or, if they are the change you want "
        "judged, create the Round with adopt: worktree; or narrow allowed_paths. Files outside allowed_paths may stay "
        "as they are."
    )

    @property
    def next(self) -> tuple[NextCall, ...]:
        """Within a Round nothing can be adopted any more."""
        if not self.round_id:
            return super().next
        return (NextCall("get_status", {"round_id": self.round_id}),)


@dataclass(kw_only=True, eq=False)
class SurroundingsChanged(AtkError):
    """Files outside the candidate's scope are not as the Round froze them."""

    message = (
        "These files are no candidate's to change and not as they were when {round_id} was created: {how}. Put them "
        "back, so that a result can only come from the candidate. A file that is new, such as one that ATK was to "
        "read (rows_file, source), can be moved outside the project or ignored in .git/info/exclude. Or end this "
        "Round with finish_round and action abandon, and create another from now."
    )
    next_calls = (NextCall("get_status", {"round_id": "{round_id}"}),)

    round_id: str
    paths: list[str]
    how: str
    """The paths by what became of them: `new: …; changed: …; gone: …`."""


@dataclass(kw_only=True, eq=False)
class NotRunnable(AtkError):
    """The project has no way to run its agent."""

    message = (
        "This project is analysis-only: {step} needs a command and Git, which initialize_project with "
        "configure_runtime: true makes known."
    )
    next_calls = (
        NextCall(
            "initialize_project", {"configure_runtime": True}, {"arguments": "the configuration of a runnable project"}
        ),
        NextCall("get_status"),
    )

    step: str


@dataclass(kw_only=True, eq=False)
class RuntimeConfigured(AtkError):
    """`configure_runtime` is for a project that cannot run anything yet."""

    message = (
        "{project_id} is configured to run already. revise: true replaces its whole configuration; configure_runtime "
        "is for an analysis-only project."
    )
    next_calls = (
        NextCall("initialize_project", {"revise": True}, {"arguments": "the whole configuration"}),
        NextCall("get_status"),
    )

    project_id: str


def require_unconfigured(project: Project) -> None:
    """Refuses a project that has a way to run its agent already."""
    if not project.analysis_only:
        raise RuntimeConfigured(project_id=project.id)


def require_status(value: Round, step: str, *needed: str) -> None:
    """Refuses a Round that is in none of the `needed` states, or that is without a baseline."""
    way_on = _AFTER.get(value.status) or _OVER.get(step, "it is over; create_round begins another")
    if value.without_baseline and value.status == "analysis_only":
        raise RoundWithoutBaseline(
            round_id=value.id, status=value.status, step=step, needed=sorted(needed), way_on=way_on
        )
    if value.status not in needed:
        raise WrongRoundStatus(
            round_id=value.id,
            status=value.status,
            step=step,
            needed=sorted(needed),
            way_on=way_on,
        )


def require_awake(value: Round, step: str) -> None:
    """Refuses a Round that rests, for a step that any other state of it allows.

    Raises:
        WrongRoundStatus: It is paused.
    """
    if value.status == "paused" and step not in WHILE_PAUSED:
        require_status(value, step, *(status for status in _OPEN_OR_PAUSED if status != "paused"))


def require_no_active(rounds: Iterable[Round]) -> None:
    """Refuses while any Round is active."""
    for value in rounds:
        if value.status in ACTIVE:
            raise AnotherRoundActive(round_id=value.id, status=value.status)


def require_nothing_pending(value: Round, candidate: Candidate | None, step: str) -> None:
    """Refuses while a Candidate of the Round is undecided."""
    if candidate is not None:
        raise CandidatePending(
            round_id=value.id,
            candidate_id=candidate.id,
            status=candidate.status,
            step=step,
            way_on=_SEAL_FIRST if candidate.status == "draft" else _DECIDE_FIRST,
        )


def rejecting(round_id: str, candidate_id: str) -> NextCall:
    """Returns the call that rejects a sealed Candidate without a comparison."""
    return NextCall(
        "decide_candidate",
        {"round_id": round_id, "candidate_id": candidate_id, "action": "reject"},
        {"reason": "why", "validation_missing_reason": "why there is no comparison"},
    )


def require_pending(value: Round, candidate: Candidate, step: str, status: str) -> None:
    """Refuses a Candidate that is not the Round's undecided one, or not in `status`."""
    if candidate.id != value.pending_candidate_id or candidate.round_id != value.id:
        raise WrongCandidate(
            candidate_id=candidate.id, status=candidate.status, step=step, needed=f"the pending candidate of {value.id}"
        )
    if candidate.status != status:
        raise WrongCandidate(
            candidate_id=candidate.id, status=candidate.status, step=step, needed=f"a {status} candidate"
        )


def described(found: Mapping[str, str]) -> str:
    """Returns paths by what became of them, as words; `found` says of each whether it is new, changed or gone."""
    parts = []
    for kind in ("new", "changed", "gone"):
        paths = sorted(path for path, became in found.items() if became == kind)
        more = f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
        if paths:
            parts.append(f"{kind}: {', '.join(paths[:_PATHS])}{more}")
    return "; ".join(parts)


def require_clean(
    value: Round, found: Mapping[str, str], frozen: Collection[str], inside: Callable[[str], bool]
) -> None:
    """Refuses a worktree that differs from where the Round stands.

    Args:
        value: The Round.
        found: The project paths that differ, each with what became of it: new, changed or gone.
        frozen: The project paths of the user's own files that the Round froze.
        inside: Whether a path is one that candidates may change.

    Raises:
        SurroundingsChanged: Files outside the scope, or frozen ones, are not as they were.
        FilesInTheWay: Files inside the scope hold changes that no commit has.
    """
    if around := sorted(path for path in found if path in frozen or not inside(path)):
        how = described({path: found[path] for path in around})
        raise SurroundingsChanged(round_id=value.id, paths=around, how=how)
    if found:
        raise FilesInTheWay(paths=sorted(found), round_id=value.id, ways_out=_PUT_ASIDE)


def require_at(value: Round, *, head: str, branch: str | None) -> None:
    """Refuses when HEAD or the branch moved away from where the Round stands."""
    if (head, branch) != (value.current_commit, value.branch):
        raise BaselineDrifted(
            round_id=value.id,
            head=head,
            branch=branch or "no branch",
            expected=value.current_commit,
            expected_branch=value.branch or "no branch",
        )


def plan_of(value: Round, step: str) -> Plan:
    """Returns the frozen plan, or refuses a Round that has none."""
    if value.plan is None:
        require_status(value, step, "ready", "optimizing", "finalizing")
        raise WrongRoundStatus(
            round_id=value.id, status=value.status, step=step, needed=["a frozen plan"], way_on="freeze_round makes one"
        )
    return value.plan


def changed(value: Round, **update: Any) -> Round:  # noqa: ANN401 - the fields of a Round
    """Returns `value` with fields replaced."""
    return value.model_copy(update=update)
