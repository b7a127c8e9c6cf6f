"""One loop an operation, made once: preparing a target costs more than a trial."""

from __future__ import annotations

import os
import tempfile

import pytest

from tests.support.crashloop.loop import Loop
from tests.support.crashloop.scenarios import SCENARIOS
from tests.support.crashloop.tracer import missing

MEMORY = "/dev/shm"
"""Flushing means nothing to what is counted and replayed here, so where it can the loop works in memory."""


@pytest.fixture(scope="session")
def loop():
    if reason := missing():
        pytest.skip(reason)
    made = {}
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:

        def get(name):
            if name not in made:
                os.mkdir(os.path.join(folder, name))
                made[name] = Loop(os.path.join(folder, name), SCENARIOS[name])
            return made[name]

        yield get


@pytest.fixture
def all_is_well():
    """Asserts that no trial went wrong, and that there were some."""

    def check(rows):
        rows = list(rows)
        wrong = [f"{row.mode} at {row.at} ({row.point}): {row.wrong}" for row in rows if row.wrong]
        assert wrong == [], f"{len(wrong)} of {len(rows)} went wrong:\n" + "\n".join(wrong[:5])
        return len(rows)

    return check
