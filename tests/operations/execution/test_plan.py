"""A plan comes back as it was written, and an agent's environment has only what was allowed."""

import os
import stat

import pytest

from operations.execution.plan import (
    STOP_FILE,
    InvalidEnvironmentName,
    PlanUnreadable,
    agent_environment,
    read_plan,
    write_plan,
)


def test_a_plan_is_read_as_it_was_written_and_only_its_owner_can_read_it(bench):
    plan = bench.plan(["agent", "{input}"], ["a", "b"], repeats=2, infrastructure_exit_codes=(75,))
    path = write_plan(plan)
    assert read_plan(path) == plan
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_new_plan_replaces_the_old_one_and_its_request_to_stop(bench):
    write_plan(bench.plan(["old"]))
    open(os.path.join(bench.work, STOP_FILE), "w").close()
    assert read_plan(write_plan(bench.plan(["new"]))).command == ("new",)
    assert not os.path.exists(os.path.join(bench.work, STOP_FILE))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"{}", b'{"batch_id": 3}'])
def test_a_file_that_is_not_a_plan_is_refused_by_name(tmp_path, content):
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(PlanUnreadable) as raised:
        read_plan(str(path))
    assert raised.value.path == str(path)
    with pytest.raises(PlanUnreadable):
        read_plan(str(tmp_path / "missing"))


def test_an_environment_has_the_allowed_the_named_and_the_added_variables():
    source = {"PATH": "/bin", "HOME": "/h", "API_KEY": "k", "AWS_SECRET": "s"}
    assert agent_environment(["API_KEY", "UNSET"], {"MODE": "test"}, source=source) == {
        "PATH": "/bin",
        "HOME": "/h",
        "API_KEY": "k",
        "MODE": "test",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    assert agent_environment(extra={"PYTHONDONTWRITEBYTECODE": "0"}, source={}) == {"PYTHONDONTWRITEBYTECODE": "0"}


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_a_name_that_no_variable_can_have_is_refused(name):
    with pytest.raises(InvalidEnvironmentName):
        agent_environment([name], source={})
    with pytest.raises(InvalidEnvironmentName):
        agent_environment(extra={name: "x"}, source={})
