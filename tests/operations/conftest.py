"""A target at any stage of a Round, copied from one that is built once a session."""

import pytest

from tests.operations.catalog.stages import Stages


@pytest.fixture(scope="session")
def stages(tmp_path_factory):
    return Stages(str(tmp_path_factory.mktemp("stages")))


@pytest.fixture
def at(stages, tmp_path):
    """Returns a function that gives a target at a stage of its own."""
    return lambda stage, name="target": stages.copy(stage, str(tmp_path / name))
