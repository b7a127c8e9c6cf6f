"""A permission pays for what began under it, and for nothing else."""

import pytest

from operations.tuning import probing
from storage.schema.datasets import Case, CaseSource
from storage.schema.probes import Probe, ProbePermission
from storage.schema.projects import Project
from storage.schema.rounds import Round

PERMISSION = ProbePermission(id="look", command=("look",), isolation_ref="reads", timeout_seconds=30, max_calls=10)


def probe(status="completed", *, scope_id="round-1-a", counts=None, unknown=0, permission=PERMISSION):
    return Probe(
        id="probe-2-a",
        status=status,
        question="why?",
        scope_id=scope_id,
        permission=permission,
        slots=4,
        owner="0" * 16,
        leases_worktree=True,
        started_at="2024-05-06T07:08:09+00:00",
        counts=counts or {},
        unknown_record_ids=tuple(f"probe-2-a.{n}" for n in range(1, unknown + 1)),
    )


def place(kind, place_id, *permissions):
    return kind.model_construct(id=place_id, probe_permissions=permissions)


def test_a_running_probe_is_charged_whole_and_an_ended_one_what_began():
    assert probe("running").charged == 4
    assert probe("interrupted", counts={"completed": 1, "timeout": 1}, unknown=1).charged == 3
    assert probe("contaminated", counts={"completed": 4}).charged == 4


def test_only_probes_of_the_same_permission_in_the_same_place_count():
    other = PERMISSION.model_copy(update={"id": "other"})
    ended = {"counts": {"completed": 3}}
    probes = [probe(**ended), probe(scope_id="project-1-a", **ended), probe(permission=other, **ended)]
    assert probing.left("round-1-a", PERMISSION, probes) == 7
    assert probing.left("project-1-a", PERMISSION, probes[:1]) == 10


def test_what_is_permitted_anew_with_less_never_goes_below_nothing():
    less = PERMISSION.model_copy(update={"max_calls": 2})
    assert probing.left("round-1-a", less, [probe(counts={"completed": 3})]) == 0


def test_the_last_execution_can_be_used_and_no_more():
    used = [probe(counts={"completed": 8})]
    assert probing.require_executions("round-1-a", PERMISSION, used, 2) == 0
    with pytest.raises(probing.ProbesUsedUp) as refused:
        probing.require_executions("round-1-a", PERMISSION, used, 3)
    assert vars(refused.value) == {
        "permission_id": "look", "scope_id": "round-1-a", "needed": 3, "left": 2, "limit": 10
    }  # fmt: skip


def test_the_rounds_own_permission_comes_before_the_projects():
    more = PERMISSION.model_copy(update={"max_calls": 11})
    value, project = place(Round, "round-1-a", more), place(Project, "project-1-a", PERMISSION)
    assert probing.permitted("look", value, project) == ("round-1-a", more)
    assert probing.permitted("look", None, project) == ("project-1-a", PERMISSION)
    assert probing.permitted("look", place(Round, "round-1-a"), project) == ("project-1-a", PERMISSION)
    with pytest.raises(probing.ProbeNotPermitted) as refused:
        probing.permitted("Look", value, project)
    assert vars(refused.value) == {
        "given": "Look", "places": ["round-1-a", "project-1-a"], "known": ["look", "look"]
    }  # fmt: skip


@pytest.mark.parametrize(("seconds", "fits"), [(240, 1), (120, 2), (30, 8), (12, 20), (0.5, 20)])
def test_as_many_inputs_fit_as_the_time_of_one_call_allows(seconds, fits):
    permission = PERMISSION.model_copy(update={"timeout_seconds": seconds})
    probing.require_bounded(permission, fits)
    with pytest.raises(probing.ProbeTooLong) as refused:
        probing.require_bounded(permission, fits + 1)
    assert refused.value.fits == fits


def test_a_permission_without_cases_is_for_any_and_one_with_cases_for_those():
    probing.require_named(PERMISSION, ["a"], field="case_ids")
    named = PERMISSION.model_copy(update={"case_ids": ("a", "b")})
    probing.require_named(named, ["b"], field="case_ids")
    with pytest.raises(probing.ProbeInputRefused) as refused:
        probing.require_named(named, ["b", "c"], field="record_ids")
    assert (refused.value.field, refused.value.given, refused.value.allowed) == ("record_ids", ["c"], ["a", "b"])


def test_a_holdout_case_is_no_input():
    usual = {
        "input": 1, "expected_present": False, "expected": None, "source_group_id": None, "initial_conditions": None,
        "attachments": (), "source": CaseSource(path="c.csv", row=1), "fingerprint": "0" * 64,
    }  # fmt: skip
    seen = [Case(id="a", usage="optimization", **usual), Case(id="b", usage="protection", **usual)]
    probing.require_visible(seen)
    with pytest.raises(probing.ProbeInputRefused, match="holdout") as refused:
        probing.require_visible([*seen, Case(id="c", usage="holdout", **usual)])
    assert refused.value.given == ["c"]
