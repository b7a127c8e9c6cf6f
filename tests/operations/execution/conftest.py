"""A run on real processes: folders, Cases, a plan, a supervisor that was started, and what it recorded."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from operations.execution.launch import launch
from operations.execution.plan import RunPlan, agent_environment, write_plan
from storage.attempts import read_attempts
from storage.masking import create_key
from storage.schema.evidence import Slot

PATIENCE_SECONDS = 60


class Bench:
    """One batch: its folders, and the supervisors that were started for it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.work = os.path.join(folder, "work")
        self.evidence = os.path.join(folder, "evidence")
        self.target = os.path.join(folder, "target")
        for path in (self.work, self.evidence, self.target):
            os.mkdir(path, 0o700)
        self.key = os.path.join(folder, "mask.key")
        create_key(self.key)
        self.handles = []

    def plan(self, command, inputs=("hello",), *, repeats=1, slots=None, attachments=(), **settings):
        cases = os.path.join(self.folder, "cases.jsonl")
        with open(cases, "w") as file:
            for number, value in enumerate(inputs):
                case = {
                    "id": f"c{number}",
                    "input": value,
                    "attachments": list(attachments),
                    "expected": "SECRET ANSWER",
                }
                file.write(json.dumps(case) + "\n")
        ids = [(f"c{number}", repeat) for number in range(len(inputs)) for repeat in range(1, repeats + 1)]
        made = [
            Slot(n=n, record_id=f"b.{n}", case_id=case, case_fingerprint=f"f-{case}", repeat=repeat)
            for n, (case, repeat) in enumerate(ids)
        ]
        defaults = {
            "batch_id": "b",
            "evidence_folder": self.evidence,
            "work_folder": self.work,
            "working_directory": self.target,
            "command": tuple(command),
            "environment": agent_environment(),
            "timeout_seconds": 30,
            "grace_seconds": 0.3,
            "slots": tuple(made if slots is None else slots),
            "cases_path": cases,
            "mask_key_path": self.key,
        }
        return RunPlan(**{**defaults, **settings})

    def start(self, plan, owner=None):
        handle = launch(write_plan(plan), owner)
        self.handles.append(handle)
        return handle

    def run(self, command, inputs=("hello",), **settings):
        handle = self.start(self.plan(command, inputs, **settings))
        assert handle.wait(PATIENCE_SECONDS)
        assert handle.returncode == 0, self.supervisor_log()
        return self.records()

    def records(self):
        return sorted(self.attempts().records(), key=lambda record: record.n)

    def attempts(self):
        return read_attempts(os.path.join(self.evidence, "attempts.log"))

    def supervisor_log(self):
        with open(os.path.join(self.work, "supervisor.log")) as file:
            return file.read()

    def sh(self, script):
        return ["sh", "-c", script]

    def python(self, script):
        return [sys.executable, "-S", "-E", "-c", script]

    def until(self, condition, what):
        """Returns the first true value of `condition`; a bound on a broken run, not a measurement."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (value := condition()):
            assert time.monotonic() < end, f"never came: {what}"
            for handle in self.handles:
                handle.wait(0.01)
        return value

    def pids(self, at_least=1, name="pids"):
        """Returns the numbers that agents wrote down, once there are enough."""
        path = os.path.join(self.target, name)

        def read():
            if not os.path.exists(path):
                return None
            with open(path) as file:
                found = [int(line) for line in file.read().split()]
            return found if len(set(found)) >= at_least else None

        return self.until(read, f"{at_least} pids")


def alive(pid):
    """Returns whether a process lives; one that is dead and not collected does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def survivors(pids, within_seconds=2.0):
    """Returns which of `pids` still live after some time, and as soon as none does."""
    end = time.monotonic() + within_seconds
    while left := [pid for pid in set(pids) if alive(pid)]:
        if time.monotonic() > end:
            break
        time.sleep(0.02)
    return left


@pytest.fixture
def bench(tmp_path):
    made = Bench(str(tmp_path))
    yield made
    for handle in made.handles:
        handle.close()
        assert handle.wait(PATIENCE_SECONDS)


@pytest.fixture
def left_alive():
    return survivors
