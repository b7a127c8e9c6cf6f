"""What the pages tell a reader to type is typed, in order, and does what they say."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.fences import Reader, blocks_of, environment
from tests.support.projects import Target

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
SLOW_AGENT = "case $1 in Dinner*) while [ -e ../hold ]; do touch ../started; sleep 0.05; done;; esac\namount=$("
"""An agent that stays with one Case as long as a file is there."""

AFTER_TRYING = "## 2."


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A person who has just installed ATK."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ATK_KEY_HOME", str(tmp_path / "keys"))
    return Reader(tmp_path)


def page(name):
    return blocks_of((ROOT / name).read_text(encoding="utf-8"))


def follow(reader, heading, text=TUTORIAL):
    """Goes through the tutorial as far as a heading."""
    reader.read(blocks_of(text[: text.index(heading)]))


def places_told():
    """Returns the places of files under `.atk/` that the page on file formats has, as patterns."""
    text = (ROOT / "docs" / "file-formats.md").read_text(encoding="utf-8").partition("## What lies in")[2]
    for cell in re.findall(r"^\| (.+?) \|", text, re.MULTILINE) + re.findall(
        r"^\| [a-z_, ]+ \| (.+?) \|$", text, re.MULTILINE
    ):
        for place in re.findall(r"`([\w./]+)`", cell):
            pattern = re.sub(r"ID|ROUND|NAME", "[^/]+", re.escape(place)).replace("000001", r"\d{6}")
            yield pattern + (".+" if place.endswith("/") else "")


@pytest.mark.slow
def test_the_tutorial_goes_from_a_failing_agent_to_an_accepted_change(reader):
    reader.read(blocks_of(TUTORIAL))
    assert (reader.here / "rules.sed").read_text(encoding="utf-8").count("\nt\n") == 2
    known = re.compile("|".join(places_told()))
    lie = [str(path.relative_to(reader.here / ".atk")) for path in (reader.here / ".atk").rglob("*") if path.is_file()]
    assert len(lie) > 40
    assert [path for path in lie if not known.fullmatch(path)] == []
    # What other pages show of a finished project is shown of this one.
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    reader.read(blocks_of(readme.partition("## Look into a project")[2]))
    for name in ("docs/how-to/read-a-report.md", "docs/inspector.md", "docs/clients.md"):
        reader.read(page(name))


def test_the_readme_leads_by_hand_from_an_agent_to_a_run(reader):
    files = {
        "agent.py": "import sys\nprint('billing' if 'invoice' in sys.argv[1] else open('prompt.txt').read().strip())\n",
        "prompt.txt": "other\n",
        "export/traces.jsonl": '{"id": "t-1", "timestamp": "2026-03-02T09:00:00Z", "input": "Hi", "output": "other"}\n',
    }
    for name, text in files.items():
        (reader.home / name).parent.mkdir(exist_ok=True)
        (reader.home / name).write_text(text, encoding="utf-8")
    (reader.home / ".gitignore").write_text("keys/\n.*\n", encoding="utf-8")
    reader.read(blocks_of("```sh\ngit init -q -b main && git add -A && git commit -qm 'The agent'\n```\n"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    reader.read(blocks_of(readme.partition("## By hand")[2].partition("## Look into")[0]))
    assert '"usage_counts"' in reader.printed


def test_the_adapter_of_the_page_runs_with_proof_of_what_it_loaded(reader, monkeypatch):
    monkeypatch.setenv("PATH", str(reader.home), prepend=os.pathsep)
    (block,) = [block for block in page("docs/how-to/write-an-adapter.md") if block.option("file")]
    command = re.search(r"^# command: (.+)$", block.text, re.MULTILINE)[1]
    reader.read([block])
    (reader.home / "prompt.txt").write_text("Be kind.\n", encoding="utf-8")
    (reader.home / "my-agent").write_text('#!/bin/sh\ncat "$4"\n', encoding="utf-8")
    request = f'{{"command": {command}, "external_effects": [], "allowed_paths": ["prompt.txt"]}}'
    reader.read(
        blocks_of(f"""```sh
chmod +x agent.sh my-agent && git init -q -b main && git add -A && git commit -qm "The agent"
atk call initialize_project --request '{request}'
atk call try_case --request '{{"input": "Hello"}}'
```
```text output
…
    "outcome": "completed",
…
    "output": "\\"Hello\\"",
    "loading_evidence": [
      {{
        "component_id": "prompt",
        "state": "loaded",
…
```
""")
    )


def test_the_probe_of_the_page_answers(tmp_path, monkeypatch):
    target = Target(tmp_path / "target")
    target.store_cases()
    target.write("retrieval.py", "def search(question):\n    return [f'about {question}']\n")
    target.git("add", ".")
    target.git("commit", "-q", "-m", "Retrieval")
    monkeypatch.chdir(target.root)
    blocks = page("docs/how-to/ask-with-a-probe.md")
    Reader(Path(target.root)).read(blocks)
    (request,) = [json.loads(block.text) for block in blocks if block.option("request")]
    request["probe_permissions"][0]["command"] = [
        "env", "PYTHONPATH=.", sys.executable, ".atk/probes/retrieved.py", "{input_file}"
    ]  # fmt: skip
    round_id = target.call("create_round", **request).round_id
    asked = {"probe_authorization_id": "retrieved", "question": "What is found?", "case_ids": ["refund-1"]}
    answer = target.call("diagnostic_probe", round_id=round_id, **asked)
    assert "about I want a refund" in str(answer)


def wait(until):
    for _ in range(1_200):
        if until():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


@pytest.mark.parametrize(
    "name",
    [
        "import-from-langfuse",
        "calibrate-a-judge",
        "upgrade",
        pytest.param("use-another-client", marks=pytest.mark.slow),
    ],
)
def test_a_page_can_be_followed_in_a_project(reader, name):
    follow(reader, AFTER_TRYING)
    reader.read(page(f"docs/how-to/{name}.md"))


def test_the_page_about_work_without_git_can_be_followed(reader):
    reader.read(page("docs/how-to/use-without-git.md"))


@pytest.mark.slow
def test_the_page_about_crashes_can_be_followed_after_one(reader):
    follow(reader, AFTER_TRYING, TUTORIAL.replace("amount=$(", SLOW_AGENT))
    reader.read(blocks_of("""```sh\natk call store_dataset --request '{"source": "cases.csv"}'\n```\n"""))
    (reader.home / "hold").touch()
    request = '{"revision_commit": "HEAD", "concurrency": 1}'
    command = ["atk", "call", "run_evaluation", "--request", request]
    with subprocess.Popen(command, cwd=reader.here, stderr=subprocess.DEVNULL) as running:
        wait((reader.home / "started").exists)
        running.kill()
    (reader.home / "hold").unlink()
    wait(lambda: "its server is gone" in reader.one("atk status\n")[1])
    reader.read(page("docs/how-to/recover-after-a-crash.md"))
