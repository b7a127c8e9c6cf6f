"""A small target to test on: a Git repository with a command agent, made an ATK project, and calls on it by name.

The agent looks words up in `prompt.txt` and answers with the queue beside the first one that the input holds, so
that an edit of that file changes how it does, and nothing else does.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from typing import Any

from operations.invocation import invoke
from operations.registry import all_operations
from storage.project import Project
from storage.projection import State
from storage.schema.projects import Project as ProjectRecord
from storage.transaction import Call

AGENT = """\
import sys

text = open(sys.argv[1], encoding="utf-8").read().lower()
for line in open("prompt.txt", encoding="utf-8"):
    word, _, queue = line.strip().partition(" -> ")
    if word and word in text:
        print(queue)
        break
else:
    print("other")
"""

PROMPT = "invoice -> billing\ncrash -> technical\n"

CASES = (
    ("invoice-1", "My invoice is wrong", "billing"),
    ("invoice-2", "Where is the invoice?", "billing"),
    ("crash-1", "It did crash again", "technical"),
    ("crash-2", "A crash at start", "technical"),
    ("refund-1", "I want a refund", "billing"),
    ("refund-2", "No refund came", "billing"),
)
"""Case id, input, expected answer. The agent of `PROMPT` fails the refunds."""

FIX = PROMPT + "refund -> billing\n"
"""A prompt with which the agent answers every Case right."""

AT = "2024-05-06T07:08:09.000000+00:00"
"""The time that calls which tests make themselves carry."""

_GIT_ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "User",
    "GIT_AUTHOR_EMAIL": "user@example.org",
    "GIT_COMMITTER_NAME": "User",
    "GIT_COMMITTER_EMAIL": "user@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Target:
    """A target in `root`: a new Git repository with the agent committed, initialized unless told not to."""

    def __init__(self, root: Any, *, initialize: bool = True, **settings: Any) -> None:
        self.root = os.path.realpath(root)
        os.makedirs(self.root, exist_ok=True)
        self.git("init", "-q", "-b", "main", "--template=")
        self.git("config", "user.name", "User")
        self.git("config", "user.email", "user@example.org")
        self.git("config", "gc.auto", "0")
        self.write("agent.py", AGENT)
        self.write("prompt.txt", PROMPT)
        self.write(".gitignore", "cases.csv\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "The agent")
        self.write_cases(CASES)
        if initialize:
            self.initialize(**settings)

    def initialize(self, **settings: Any) -> Any:
        """Calls initialize_project with what the agent needs; `settings` are further or other fields."""
        usual = {
            "command": [sys.executable, "agent.py", "{input_file}"],
            "components": [
                {"component_id": "prompt", "role": "prompt", "change_role": "variable", "source_path": "prompt.txt"},
                {"component_id": "code", "role": "agent_code", "change_role": "fixed", "source_path": "agent.py"},
            ],
            "external_effects": [],
            "allowed_paths": ["prompt.txt", "notes"],
            "protected_paths": ["agent.py"],
        }
        return self.call("initialize_project", **{**usual, **settings})

    def call(self, operation_name: str, **arguments: Any) -> Any:
        """Runs an operation on this project, as the server and the inspector do. Returns its response."""
        return invoke(all_operations()[operation_name], {"project_path": self.root, **arguments})

    def store_cases(self, **arguments: Any) -> str:
        """Stores `cases.csv` as a dataset. Returns the dataset's id."""
        return str(self.call("store_dataset", source="cases.csv", **arguments).dataset_id)

    def write_cases(self, cases: Any, name: str = "cases.csv") -> None:
        """Writes Cases, each (id, input, expected), as a CSV file that Git ignores."""
        with open(self.path(name), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "input", "expected"])
            writer.writerows(cases)

    def path(self, name: str) -> str:
        """Returns the absolute path of a file of the target."""
        return os.path.join(self.root, name)

    def write(self, name: str, content: str | bytes) -> None:
        """Writes a file of the target, and the folders that lead to it."""
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def read(self, name: str) -> str:
        """Returns the text of a file of the target."""
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def git(self, *arguments: str) -> str:
        """Runs git as the user would. Returns what it printed, without the last line's end."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | _GIT_ENVIRONMENT
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.rstrip("\n")

    @property
    def head(self) -> str:
        """The commit that HEAD names."""
        return self.git("rev-parse", "HEAD")

    @property
    def project(self) -> Project:
        """The project, as this process has it open."""
        return Project.open(self.root)

    @property
    def state(self) -> State:
        """The project's present state."""
        return self.project.state()


def call_of(operation: str = "test", request_id: str | None = None, **arguments: Any) -> Call:
    """Returns a call for tests that use the store without an operation."""
    return Call(operation=operation, arguments=arguments, request_id=request_id, at=AT)


def bare(root: Any, **settings: Any) -> Project:
    """Makes a project for import and assessment only: a store and nothing around it."""
    path = os.path.realpath(root)
    os.makedirs(path, exist_ok=True)
    record = ProjectRecord(
        id="project-1-test",
        workspace_path=path,
        created_at=AT,
        analysis_only=True,
        run_config_digest="0" * 64,
        **settings,
    )
    return Project.create(path, call_of("initialize_project"), record, {"message": "made"})[0]
