"""What the pages tell a reader to type is typed, in order, and does what they say."""

import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.fences import Reader, blocks_of, environment

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


def test_the_tutorial_goes_from_a_failing_agent_to_an_accepted_change(reader):
    reader.read(blocks_of(TUTORIAL))
    assert (reader.here / "rules.sed").read_text(encoding="utf-8").count("\nt\n") == 2
    known = re.compile("|".join(places_told()))
    lie = [str(path.relative_to(reader.here / ".atk")) for path in (reader.here / ".atk").rglob("*") if path.is_file()]
    assert len(lie) > 40
    assert [path for path in lie if not known.fullmatch(path)] == []


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
