"""Threads of one process on one project: the result is that of some serial order."""

import pytest

from operations.invocation import invoke
from operations.registry import all_operations
from storage.errors import AtkError
from tests.concurrency.mixed import World, assert_serial, run


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def library(world):
    """How to ask the library in the calling thread."""

    def ask(name, arguments):
        try:
            response = invoke(all_operations()[name], {"project_path": world.target.root, **arguments})
        except AtkError as error:
            return False, {"code": error.code, "message": str(error)}
        return True, response.model_dump(mode="json")

    return ask


def test_eight_threads_at_once_leave_a_serial_history(world, library):
    run(world, [library] * 8, seed=5, steps=4)
    assert_serial(world)


@pytest.mark.slow
def test_eight_threads_for_long_leave_a_serial_history(world, library):
    run(world, [library] * 8, seed=8, steps=30)
    assert_serial(world)
    assert len({name for name, _ in world.acknowledged}) >= 8
