"""What the crash loop aims at: one call, what is there before it, and what it must have done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from storage.projection import State
from tests.operations.catalog import stages
from tests.operations.catalog.stages import Staged, Stages

REQUEST_ID = "crash-loop"
PROJECT = "project"
KEYS = "keys"
ELSEWHERE = "cache"
"""The folders below the one whose changes count: the target, the user's keys, and where isolated runs go."""


def nothing_more(target: Staged, state: State, response: Mapping[str, Any]) -> None:
    """Asserts nothing: that all is as after a run without a fault is asserted of every scenario."""
    del target, state, response


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One call under test."""

    name: str
    operation: str
    stage: str
    arguments: Callable[[Staged], Mapping[str, Any]]
    """Brings the target from its stage to where the call is made. Returns the call's arguments."""
    action: str = ""
    """Which of the operation's actions is called, where it has several."""
    done: Callable[[Staged, State, Mapping[str, Any]], None] = nothing_more
    """Asserts that the call was made, whole and once, and answered with this response."""
    after_power: Callable[[Staged, State, Mapping[str, Any]], None] | None = None
    """The same after a power cut, where that may take more than a kill does."""
    command: Callable[[Mapping[str, Any]], list[str]] | None = None
    """The command line for `atk`, where it is not `atk call`."""
    writes: tuple[str, ...] = ()
    """What of the worktree it may change, from the top."""
    moves_branch: bool = False
    edited: bool = True
    """Whether the user has open edits beside what the call is about; from a Round's beginning on there always are."""
    keyed: bool = True
    """Whether the call takes a `request_id`."""
    waits: bool = False
    """Whether the call may answer before all is done, unless it is told to wait."""
    again: Callable[[Staged, Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Makes the call again, where that is not the same call."""
    runs: bool = False
    """Whether it starts the agent: what a crash ends is then interrupted, not undone."""
    refused: str = ""
    """The code of the refusal that the call ends with, after it stored something."""

    @property
    def git(self) -> bool:
        """Whether it changes what is the user's, so that it is carried out in steps."""
        return bool(self.writes) or self.moves_branch


def add_the_users(target: Staged) -> None:
    """Commits what is the user's own: more files, another branch, a tag."""
    target.write("README.md", "The agent\n")
    target.write("data/table.bin", bytes(range(256)))
    target.write(".gitignore", "*.csv\n*.jsonl\n")
    target.git("add", ".")
    target.git("commit", "-q", "-m", "More of it")
    target.git("branch", "other")
    target.git("tag", "v1")
    target.ids["commit"] = target.head


def edit(target: Staged) -> None:
    """Leaves an open edit, a new file and an ignored one, unless they are there."""
    if os.path.exists(target.path("mine.txt")):
        return
    target.write("README.md", "The agent, being described\n")
    target.write("mine.txt", "not for Git\n")
    target.write(".env", "KEY=value\n")
    os.makedirs(target.path(".git/info"), exist_ok=True)
    with open(target.path(".git/info/exclude"), "a", encoding="utf-8") as file:
        file.write(".env\n")


_HOLD = """\
if [ -e hold.csv ]; then : > begun.csv; while [ -e hold.csv ]; do sleep 0.02; done; fi
if [ -e infra.csv ]; then exit 75; fi
"""
"""What the agent does first: it waits, or fails for infrastructure, while an ignored file of that name is there."""


def _blank(target: Staged) -> None:
    stages.LADDER["blank"](target)
    target.write("agent.sh", _HOLD + stages.AGENT)
    add_the_users(target)


def _initialized(target: Staged) -> None:
    target.initialize(
        command=["sh", "agent.sh", "{input_file}"],
        components=[
            {"component_id": "prompt", "role": "prompt", "change_role": "variable", "source_path": "prompt.txt"}
        ],
        allowed_paths=["prompt.txt", "notes"],
        protected_paths=["agent.sh"],
        infrastructure_exit_codes=[75],
    )


def _drafted(target: Staged) -> None:
    paths = ["prompt.txt", "notes/why.txt"]
    found = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id, paths=paths)
    target.ids["candidate_id"] = found.candidate_id
    target.write("prompt.txt", stages.FIX)
    target.write("notes/why.txt", "Refunds go to billing.\n")


def _opened(target: Staged) -> None:
    edit(target)  # what a Round finds has to stay until it ends
    stages.LADDER["opened"](target)


class Ladder(Stages):
    """The stages of a Round on a target that holds files of the user's, each built once."""

    steps: Mapping[str, Callable[[Staged], None]] = {
        **stages.LADDER,
        "blank": _blank,
        "initialized": _initialized,
        "opened": _opened,
        "drafted": _drafted,
    }

    def _built(self, stage: str) -> str:
        path = os.path.join(self._top, stage)
        if not os.path.exists(f"{path}.json"):
            names = list(self.steps)
            before = names.index(stage) - 1
            made = self.copy(names[before], path) if before >= 0 else Staged(path, {})
            self.steps[stage](made)
            with open(f"{path}.json", "w", encoding="utf-8") as file:
                json.dump(made.ids, file)
        return path
