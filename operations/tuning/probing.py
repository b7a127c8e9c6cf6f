"""What probes may do: which permission counts, what it pays for, and which input it allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from storage.errors import AtkError, NextCall
from storage.schema.datasets import Case
from storage.schema.probes import MOST_SECONDS, Probe, ProbePermission
from storage.schema.projects import Project
from storage.schema.rounds import Round

MOST_INPUTS = 20
"""How many Cases and Records one probe looks at."""

_NAMED = 5


@dataclass(kw_only=True, eq=False)
class ProbeNotPermitted(AtkError):
    """No permission of that name stands where the probe looks for one."""

    message: ClassVar[str] = (
        "There is no probe permission {given!r} in {places}; permitted are: {known}. A permission is frozen when it is "
        "given: create_round takes probe_permissions for a Round, initialize_project (with revise) for the project."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("get_status"),
        NextCall("create_round", supply={"probe_permissions": "what the person lets probes start, and how often"}),
    )

    given: str
    places: list[str]
    known: list[str]


@dataclass(kw_only=True, eq=False)
class ProbeInputRefused(AtkError):
    """The probe is to be given something that is not there, or that its permission does not allow."""

    message: ClassVar[str] = "{field} {problem} (given: {given}). Allowed: {allowed}."
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"),)

    field: str
    problem: str
    given: list[str]
    allowed: list[str]


@dataclass(kw_only=True, eq=False)
class ProbeTooLong(AtkError):
    """All Executions together could take longer than one call may."""

    message: ClassVar[str] = (
        "{inputs} inputs of up to {timeout_seconds:g} s each could take longer than the {limit} s of one probe. Give "
        "at most {fits} inputs at a time."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("diagnostic_probe", supply={"arguments": "with at most {fits} Cases and Records"}),
    )

    inputs: int
    timeout_seconds: float
    limit: int = MOST_SECONDS
    fits: int


@dataclass(kw_only=True, eq=False)
class ProbesUsedUp(AtkError):
    """The permission has not enough Executions left."""

    message: ClassVar[str] = (
        "{permission_id!r} of {scope_id} has {left} of {limit} Executions left, and the probe needs {needed}. Give "
        "fewer inputs, or diagnose with what the earlier probes showed."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"),)

    permission_id: str
    scope_id: str
    needed: int
    left: int
    limit: int


def permitted(given: str, value: Round | None, project: Project) -> tuple[str, ProbePermission]:
    """Returns the permission of that name and the id of what holds it: the Round's own come before the project's.

    Raises:
        ProbeNotPermitted: Neither has one of that name.
    """
    places: list[Round | Project] = [*([value] if value else []), project]
    for place in places:
        for permission in place.probe_permissions:
            if permission.id == given:
                return place.id, permission
    known = [permission.id for place in places for permission in place.probe_permissions]
    raise ProbeNotPermitted(given=given, places=[place.id for place in places], known=known)


def left(scope_id: str, permission: ProbePermission, probes: Iterable[Probe]) -> int:
    """Returns how many Executions a permission has left. A name that is permitted anew in a project keeps its past."""
    used = sum(p.charged for p in probes if (p.scope_id, p.permission.id) == (scope_id, permission.id))
    return max(0, permission.max_calls - used)


def require_executions(scope_id: str, permission: ProbePermission, probes: Iterable[Probe], needed: int) -> int:
    """Refuses a probe that its permission cannot pay. Returns what is left after it.

    Raises:
        ProbesUsedUp: It says what is left.
    """
    free = left(scope_id, permission, probes)
    if needed > free:
        raise ProbesUsedUp(
            permission_id=permission.id, scope_id=scope_id, needed=needed, left=free, limit=permission.max_calls
        )
    return free - needed


def require_bounded(permission: ProbePermission, inputs: int) -> None:
    """Refuses more inputs than one call has time for.

    Raises:
        ProbeTooLong: It says how many fit.
    """
    fits = min(MOST_INPUTS, int(MOST_SECONDS // permission.timeout_seconds))
    if inputs > fits:
        raise ProbeTooLong(inputs=inputs, timeout_seconds=permission.timeout_seconds, fits=fits)


def require_cases(
    permission: ProbePermission, wanted: Sequence[str], known: Collection[str], *, field: str = "case_ids"
) -> None:
    """Refuses Cases that are not there or that the permission does not name.

    Raises:
        ProbeInputRefused: It names them.
    """
    if strangers := [c for c in wanted if c not in known]:
        problem, allowed = "names what is no Case of the dataset", list(known)[:_NAMED]
        raise ProbeInputRefused(field=field, problem=problem, given=strangers[:_NAMED], allowed=allowed)
    if len(set(wanted)) != len(wanted):
        raise ProbeInputRefused(field=field, problem="names a Case twice", given=list(wanted), allowed=["each once"])
    require_named(permission, wanted, field=field)


def require_named(permission: ProbePermission, wanted: Iterable[str], *, field: str) -> None:
    """Refuses Cases that a permission with a list of Cases does not name.

    Raises:
        ProbeInputRefused: It names them.
    """
    if permission.case_ids and (outside := [c for c in wanted if c not in permission.case_ids]):
        problem = f"leads to Cases that the permission {permission.id} does not name"
        raise ProbeInputRefused(field=field, problem=problem, given=outside, allowed=list(permission.case_ids))


def require_visible(cases: Iterable[Case]) -> None:
    """Refuses holdout Cases: nobody may see them while tuning.

    Raises:
        ProbeInputRefused: It names them.
    """
    if hidden := [case.id for case in cases if case.usage == "holdout"]:
        problem = "names holdout Cases, which no probe may see"
        raise ProbeInputRefused(field="case_ids", problem=problem, given=hidden, allowed=["Cases of other usage"])
