"""One loop a scenario, made once: preparing a target costs more than a trial. And which share of all is tried."""

from __future__ import annotations

import os
import random
import shutil
import tempfile

import pytest

from tests.support.crashloop.loop import Loop
from tests.support.crashloop.scenario import Ladder
from tests.support.crashloop.scenarios import SCENARIOS
from tests.support.crashloop.tracer import missing

MEMORY = "/dev/shm"
"""Flushing means nothing to what is counted and replayed here, so where it can the loop works in memory."""

SEED = int(os.environ.get("ATK_CRASH_SEED", "1"))
"""Chooses the share of the operations, their calls and their power states; `scripts/crash-matrix` tries all of them."""

SHARE = int(os.environ.get("ATK_CRASH_SHARE", "3"))
"""One scenario in so many is tried."""


def share():
    """The names of one scenario in `SHARE` of each kind: of what stores, moves the user's files, and runs the agent."""
    found = []
    for runs, git in ((False, False), (False, True), (True, False)):
        kind = [s.name for s in SCENARIOS.values() if s.runs == runs and (runs or s.git == git)]
        found += random.Random(SEED).sample(kind, -(-len(kind) // SHARE))
    return found


@pytest.fixture(scope="session")
def ladder():
    if reason := missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Ladder(folder)


@pytest.fixture(scope="session")
def loop(ladder, tmp_path_factory):
    top = tmp_path_factory.mktemp("loops")
    made = {}

    def get(name):
        if name not in made:
            for other in made:  # the tests go through the scenarios one by one
                shutil.rmtree(top / other, ignore_errors=True)
            made.clear()
            (top / name).mkdir()
            made[name] = Loop(str(top / name), SCENARIOS[name], ladder)
        return made[name]

    return get


@pytest.fixture
def all_is_well():
    """Asserts that no trial went wrong, and returns how many there were."""

    def check(rows):
        rows = list(rows)
        wrong = [f"{row.mode} at {row.at} ({row.point}): {row.wrong}" for row in rows if row.wrong]
        assert wrong == [], f"{len(wrong)} of {len(rows)} went wrong:\n" + "\n".join(wrong[:5])
        return len(rows)

    return check
