"""`atk init` makes a project of a folder, starts its agent once, and leaves nothing where it does not."""

import json
import os
import pty
import select
import subprocess
import sys

import pytest

from atk_mcp import inspector
from atk_mcp.starting.entries import STDIN_SCRIPT
from operations.invocation import invoke
from operations.registry import all_operations
from storage.project import Project
from storage.schema.projects import Project as ProjectRecord
from tests.atk_mcp.starting.conftest import GIT

PYTHON = "import sys\nprint('queue:', sys.argv[1])\n"
STDIN = "print('queue:', input())\n"


@pytest.fixture
def atk(capsys):
    """Returns a function that runs `atk init` on a folder and gives its status, stdout and stderr."""

    def made(root, *words):
        status = inspector.main(["init", *words, "--project", str(root)])
        return status, *capsys.readouterr()

    return made


def configuration(root):
    return Project.open(str(root)).state().all(ProjectRecord)[0]


PATIENCE_SECONDS = 60
"""A bound on what is broken, not a measurement."""


class Terminal:
    """A person at a real terminal, who answers what is asked."""

    def __init__(self, root, *words):
        command = [sys.executable, "-m", "atk_mcp.inspector", "init", *words, "--project", str(root)]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, command)
        self.shown = ""

    def until(self, words):
        """Reads until `words` are shown."""
        while words not in self.shown:
            data = self._read()
            assert data, f"{words!r} was never shown; what was: {self.shown}"

    def answer(self, question, text):
        """Waits for a question that was not answered yet, and answers it."""
        self.until(question)
        self.shown = self.shown.partition(question)[2]
        self.until("]: ")
        os.write(self.fd, text.encode())

    def end(self):
        """Returns the rest of what is shown, and the exit status."""
        while self._read():
            pass
        os.close(self.fd)
        return self.shown.replace("\r\n", "\n"), os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self):
        ready = select.poll()  # select takes no handle above 1023
        ready.register(self.fd)
        assert ready.poll(PATIENCE_SECONDS * 1000), f"nothing more was shown; what was: {self.shown}"
        try:
            data = os.read(self.fd, 65_536)
        except OSError:  # the other end of the terminal is closed
            return b""
        self.shown += data.decode()
        return data


@pytest.mark.parametrize(
    ("files", "command", "said"),
    [
        ({"agent.py": PYTHON}, ["python3", "agent.py", "{input}"], "queue: Hello"),
        ({"main.py": STDIN}, ["sh", "-c", STDIN_SCRIPT, "agent", "{input}", "python3", "main.py"], "queue: Hello"),
        ({"agent.sh": 'echo "got $1"\n'}, ["sh", "agent.sh", "{input}"], "got Hello"),
        ({"agent.sh": 'cat "$1"\n'}, ["sh", "agent.sh", "{input_file}"], '"Hello"'),
    ],
)
def test_with_yes_the_project_is_made_and_its_agent_answers(folder, atk, files, command, said):
    root = folder(files, git=True)
    status, out, err = atk(root, "--yes", "--json")
    told = json.loads(out)
    assert (status, told["tried"]["smoke"]["output"].strip()) == (0, said)
    assert list(configuration(root).command) == command == told["request"]["command"]
    assert "Your agent starts and answers." in err


def test_tracked_files_that_a_first_run_would_not_take_are_named_at_the_end(folder, atk):
    root = folder({"agent.sh": 'echo "$1"\n', "README": "mine\n", "prompts/a.md": "a\n"}, git=True)
    (root / "README").write_text("changed\n", encoding="utf-8")
    (root / "notes").write_text("new\n", encoding="utf-8")
    status, out, err = atk(root, "--yes")
    assert status == 0
    told = " ".join((out + err).split())
    assert "Commit or restore before it, since tracked files have to be as HEAD has them: README." in told


@pytest.mark.slow
def test_an_agent_of_node_answers(folder, atk):
    files = {"package.json": '{"main": "index.js"}', "index.js": "console.log('got', process.argv[2])\n"}
    status, out, _ = atk(folder(files, git=True), "--yes", "--json")
    assert (status, json.loads(out)["tried"]["smoke"]["output"]) == (0, "got Hello\n")


def test_an_agent_that_fails_is_told_of_with_what_to_change_and_the_project_stays(folder, atk):
    root = folder({"agent.py": "import sys\nsys.argv\nimport not_installed_here\n"}, git=True)
    status, out, _ = atk(root, "--yes")
    assert status == 1
    assert "It started, and ended with exit code 1" in out
    assert "Install what the agent needs into .venv here" in " ".join(out.split())
    assert f"""atk call try_case --project {root} --request '{{"input": "Hello"}}'""" in out
    assert list(configuration(root).command) == ["python3", "agent.py", "{input}"]


def test_with_yes_an_effect_that_the_code_shows_is_declared_and_the_agent_not_started(folder, atk):
    root = folder({"agent.py": PYTHON + "import smtplib\nopen('started', 'w')\n"}, git=True)
    status, out, _ = atk(root, "--yes")
    assert status == 1
    assert "nothing protects mail yet" in out
    assert [effect.model_dump() for effect in configuration(root).external_effects] == [
        {"name": "mail", "protection": None}
    ]
    assert not (root / "started").exists()


def test_a_dry_run_writes_and_starts_nothing(folder, atk):
    root = folder({"agent.py": PYTHON + "open('started', 'w')\n"}, git=True)
    before = sorted(os.walk(root))
    status, out, _ = atk(root, "--yes", "--dry-run")
    assert (status, sorted(os.walk(root))) == (0, before)
    assert '"command": ["python3", "agent.py", "{input}"]' in out


@pytest.mark.parametrize("files", [{}, {"agent.py": PYTHON}])
def test_without_git_nothing_is_written_until_the_person_chooses_to_go_on(folder, atk, files):
    root = folder(files)
    status, out, _ = atk(root, "--yes")
    assert (status, os.listdir(root)) == (1, list(files))
    assert "git init && git add -A && git commit" in out
    status, out, _ = atk(root, "--yes", "--without-git")
    known = configuration(root)
    assert (status, known.analysis_only, known.runnable) == (0, True, bool(files))
    assert ("queue: Hello" in out, "import_evidence" in out) == (bool(files), not files)


def test_a_clone_that_lacks_the_store_of_its_kept_commits_is_told_before_a_new_project_is_made(folder, atk):
    root = folder({"agent.py": PYTHON}, git=True)
    message = "Kept\n\nATK-Round: round-6-abcd\nATK-Candidate: candidate-9-abcd\nATK-Operation: 21\n"
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", message], cwd=root, check=True, env=os.environ | GIT)

    status, out, _ = atk(root, "--yes", "--dry-run")

    told = " ".join(out.split())
    assert status == 0
    assert "Git has traces of a project here" in told
    assert told.index("Git has traces") < told.index("What starts one attempt")


def test_a_skill_without_its_program_is_configured_and_not_started(folder, atk, monkeypatch):
    root = folder({"SKILL.md": "---\nname: refund\n---\n", "references/policy.md": ""}, git=True)
    git = os.path.dirname(subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout)
    monkeypatch.setenv("PATH", git)
    status, out, _ = atk(root, "--yes", "--json")
    assert status == 1
    assert json.loads(out)["request"] == {
        "adapter": "codex-skill",
        "adapter_options": {"skill_path": ".", "skill_name": "refund"},
        "allowed_paths": ["SKILL.md"],
        "protected_paths": [],
        "components": [
            {"component_id": "skill", "role": "skill", "change_role": "variable", "source_path": "SKILL.md"}
        ],
        "external_effects": [],
        "timeout_seconds": 120.0,
    }


def test_nobody_at_a_terminal_is_refused_with_what_to_do(folder, atk):
    root = folder({"agent.py": PYTHON}, git=True)
    status, out, err = atk(root)
    assert (status, out) == (1, "")
    assert "give --yes to take every default" in err
    assert json.loads(atk(root, "--json")[2])["code"] == "nobody_to_ask"
    assert not (root / ".atk").exists()


def test_a_folder_that_is_missing_or_holds_another_store_is_refused_untouched(folder, atk):
    root = folder({".atk/project.json": "{}"}, git=True)
    status, _, err = atk(root, "--yes")
    assert (status, "legacy_store" in err, os.listdir(root / ".atk")) == (1, True, ["project.json"])
    status, _, err = atk(root / "none", "--yes", "--json")
    assert (status, json.loads(err)["code"]) == (1, "folder_missing")


def test_a_repository_in_the_middle_of_something_is_told_and_left_alone(folder, atk):
    root = folder({"agent.py": PYTHON}, git=True)
    os.makedirs(root / ".git" / "rebase-merge")
    status, out, _ = atk(root, "--yes", "--json")
    assert (status, json.loads(out)["found"]["git"]["code"]) == (1, "operation_in_progress")
    assert not (root / ".atk").exists()


def test_what_the_operation_refuses_is_told_and_nothing_is_there(folder, atk):
    root = folder({"agent.py": PYTHON, "sk-proj-Zb7Qm2Kx9Wv4Tn6Rd8Lp3Hs5-prompt.md": ""}, git=True)
    status, out, err = atk(root, "--yes", "--json")
    assert (status, json.loads(out)["refusal"]["code"]) == (1, "secret_in_configuration")
    assert json.loads(err.splitlines()[-1])["code"] == "secret_in_configuration"
    assert not (root / ".atk").exists()


FULL = {
    "command": ["python3", "agent.py", "{input}"],
    "environment": ["HOME"],
    "working_directory": "agent",
    "components": [{"component_id": "p", "role": "prompt", "change_role": "variable", "source_path": "agent/agent.py"}],
    "external_effects": [{"name": "mail", "protection": {"kind": "stub", "evidence_ref": "the tests"}}],
    "allowed_paths": ["agent/prompt.md"],
    "protected_paths": ["agent/agent.py"],
    "infrastructure_exit_codes": [75],
    "timeout_seconds": 9.5,
    "metric_sources": {"cost": {"source": "proxy", "evidence_ref": "its log"}},
    "replay_preparation": {"argv": ["true"]},
    "redact_keys": ["iban"],
    "case_environment": {"CASE": "{case_id}"},
    "runtime_notes": "slow",
}


TRIES = {"analysis_only": True, "command": ["a", "{input}"], "external_effects": []}


@pytest.mark.parametrize("request_", [FULL, {"analysis_only": True}, TRIES])
def test_a_project_that_is_there_shows_the_request_that_says_it_again(folder, atk, request_):
    root = folder({"agent/agent.py": PYTHON}, git=True)
    initialize = all_operations()["initialize_project"]
    invoke(initialize, {**request_, "project_path": str(root)})
    status, out, _ = atk(root, "--yes", "--json")
    shown = json.loads(out)
    known = configuration(root)
    assert (status, shown["project_id"]) == (1, known.id)
    invoke(initialize, {**shown["request"], "project_path": str(root)})
    assert configuration(root) == known
    told = atk(root)[1]
    assert f"atk call initialize_project --project {root} --request init.json" in told
    assert json.loads(told[told.index("{") : told.rindex("}") + 1]) == shown["request"]


def test_a_person_walks_through_and_hands_the_input_over_another_way_when_the_first_fails(folder):
    root = folder({"agent.py": "import argparse\n" + STDIN, "prompts/a.md": ""}, git=True)
    at = Terminal(root)
    for question in (
        "Start",
        "Its number",
        "changed to make",
        "never be changed",
        "act on outside",
        "How many seconds",
    ):
        at.answer(question, "\n")
    at.answer("Make the project", "maybe\n")
    at.answer("neither yes nor no", "y\n")
    at.answer("Start the agent once", "y\n")
    at.answer("On which input?", "Where is my parcel?\n")
    at.until("EOFError")
    at.answer("try again?", "\n")
    at.answer("Its number", "\n")
    shown, status = at.end()
    assert status == 0
    assert "queue: Where is my parcel?" in shown
    assert "Your agent starts and answers." in shown
    assert configuration(root).command[:2] == ("sh", "-c")


@pytest.mark.parametrize(
    ("key", "status", "said"),
    [("\x03", 130, "stopped"), pytest.param("\x04", 1, "the answers ended", marks=pytest.mark.slow)],
)
def test_a_person_who_leaves_leaves_nothing_behind(folder, key, status, said):
    root = folder({"agent.py": PYTHON}, git=True)
    at = Terminal(root)
    at.answer("Start", key)
    shown, found = at.end()
    assert found == status
    assert f"atk init: {said}" in shown
    assert "Nothing was written." in shown
    assert sorted(os.listdir(root)) == [".git", "agent.py"]


@pytest.mark.slow
def test_ctrl_c_during_the_attempt_ends_the_agent_and_says_that_the_project_stays(folder):
    root = folder({"agent.py": "import sys, time\nsys.argv\nopen('started', 'w').close()\ntime.sleep(600)\n"}, git=True)
    at = Terminal(root)
    for question in (
        "Start",
        "Its number",
        "changed to make",
        "never be changed",
        "act on outside",
        "How many seconds",
    ):
        at.answer(question, "\n")
    at.answer("Make the project", "\n")
    at.answer("Start the agent once", "\n")
    at.answer("On which input?", "\n")
    while not (root / "started").exists():
        at.until("")
    os.write(at.fd, b"\x03")
    shown, status = at.end()
    assert status == 130
    assert f"{configuration(root).id} is made" in shown
