"""When a Round may rest, go on or turn to its final validation, and how it stands then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from operations.tuning import lifecycle, running
from storage.errors import AtkError, NextCall
from storage.schema.candidates import Candidate
from storage.schema.rounds import ACTIVE, Pause, Round, RoundStatus, Transition

RESTS_FROM = ("analysis_only", "ready", "optimizing", "finalizing")


@dataclass(kw_only=True, eq=False)
class ConfigurationMoved(AtkError):
    """The project is not configured as the plan was frozen for."""

    message: ClassVar[str] = (
        "{field} of the project is not what the plan of {round_id} was frozen for: what would run now is something "
        "else. Put the configuration back with initialize_project and revise: true, or give the Round up with "
        "finish_round and action abandon."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("initialize_project", {"revise": True}, {"arguments": "the configuration of then"}),
        NextCall("finish_round", {"round_id": "{round_id}", "action": "abandon"}, {"reason": "why it is given up"}),
    )

    round_id: str
    field: str


def require_configured(value: Round, *, run_config_digest: str, runner_digest: str) -> None:
    """Refuses to go on under another configuration than the one that the plan was frozen for.

    Raises:
        ConfigurationMoved: It names which of both differs.
    """
    if value.plan is None:
        return
    now = {"run_config_digest": run_config_digest, "runner_digest": runner_digest}
    for field, found in now.items():
        if getattr(value.plan, field) != found:
            raise ConfigurationMoved(round_id=value.id, field=field)


def paused(value: Round, pause: Pause) -> Round:
    """Returns the Round at rest."""
    return _moved(value, "paused", Transition(
        action="pause", from_status=value.status, to_status="paused", reason=pause.reason, at=pause.at
    ), pause)  # fmt: skip


def resumed(value: Round, pause: Pause, reason: str, at: str) -> Round:
    """Returns the Round in the state in which it was paused."""
    to: RoundStatus = pause.from_status
    return _moved(
        value, to, Transition(action="resume", from_status="paused", to_status=to, reason=reason, at=at), None
    )


def finalizing(value: Round, pending: Candidate | None, reason: str, at: str) -> Round:
    """Returns the Round without further candidates; one that is there already comes back as it is.

    Raises:
        WrongRoundStatus: It is not active.
        CandidatePending: A candidate is undecided.
        NothingToValidate: No candidate is kept.
    """
    lifecycle.require_status(value, "start_finalizing", *ACTIVE)
    if value.status == "finalizing":
        return value
    lifecycle.require_nothing_pending(value, pending, "start_finalizing")
    running.require_kept(value)
    step = Transition(action="start_finalizing", from_status=value.status, to_status="finalizing", reason=reason, at=at)
    return _moved(value, "finalizing", step, None)


def _moved(value: Round, status: RoundStatus, step: Transition, pause: Pause | None) -> Round:
    return lifecycle.changed(value, status=status, pause=pause, transitions=(*value.transitions, step))
