"""What the documents say is there."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(\w*)[^`\n]*\n(.*?)```", re.DOTALL)

DEMO = "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e . && .venv/bin/atk demo"
TESTS = "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e '.[dev]' && .venv/bin/pytest"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name):
    """Returns the commands and settings of a page, without their comments, which are in its language."""
    return [re.sub(r"\s*#.*", "", text).split() for language, text in BLOCK.findall(read(name)) if language]


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_readme_names_the_two_commands_whole(name):
    assert [line for line in read(name).splitlines() if line.startswith("python3 -m venv")] == [DEMO, TESTS]


def test_the_chinese_readme_has_the_same_commands_and_settings_as_the_english_one():
    assert blocks("README.zh.md") == blocks("README.md")


def test_the_readme_names_only_commands_that_atk_has():
    from atk_mcp.inspector import build_parser

    named = {
        match
        for block in blocks("README.md")
        for match in re.findall(r"(?:^|\s)(?:\.venv/bin/)?atk ([a-z]+)", " ".join(block))
    }
    commands = build_parser()._subparsers._group_actions[0].choices
    assert named <= set(commands)
    assert {
        "demo",
        "init",
        "install",
        "status",
        "tools",
        "call",
        "run",
        "journal",
        "recover",
        "approve",
        "key",
    } <= named
    assert {"rounds", "show", "cases", "diff", "trajectory", "report", "gate", "watch", "gc", "export"} <= named


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_requests_in_the_readme_fit_their_operations(name):
    from operations.registry import all_operations

    calls = re.findall(r"^atk call (\w+)(?: --request (?:'(.+?)'|init\.json)| --help)", read(name), re.MULTILINE)
    init = next(text for language, text in BLOCK.findall(read(name)) if language == "json" and "command" in text[:20])
    assert len(calls) == read(name).count("\natk call ")
    assert [called for called, _ in calls][:2] == ["initialize_project", "try_case"]
    for called, request in calls:
        operation = all_operations()[called]
        if called != "store_assessment":
            operation.request.model_validate_json((request or init).replace('"ID"', '"batch-14-m3qa"'))


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_readme_names_the_operations_of_a_round_in_their_order(name):
    from operations.registry import all_operations

    steps = re.findall(r"^\d\. .+(?:\n   .+)*", read(name), re.MULTILINE)
    named = [re.findall(r"`([a-z_]+)`", step) for step in steps]
    assert {operation for step in named for operation in step} <= set(all_operations())
    both = {"run_evaluation", "store_assessment"}
    assert [[x for x in step if x not in both] for step in named] == [
        [],
        ["create_round", "store_diagnosis", "freeze_round"],
        ["prepare_candidate", "seal_candidate", "compare_and_gate", "decide_candidate"],
        ["compare_and_gate", "finish_round"],
    ]
    assert [both <= set(step) for step in named] == [True, False, True, True]


def test_the_readme_configures_codex_with_settings_that_parse():
    import tomllib

    (settings,) = [text for language, text in BLOCK.findall(read("README.md")) if language == "toml"]
    server = tomllib.loads(settings)["mcp_servers"]["atk"]
    assert server == {
        "command": "atk-mcp",
        "required": True,
        "startup_timeout_sec": 60,
        "tool_timeout_sec": 600,
        "default_tools_approval_mode": "approve",
    }


@pytest.mark.parametrize("name", ["docs/architecture.md", "AGENTS.md"])
def test_a_map_names_only_places_that_exist(name):
    tops = ("atk_mcp/", "operations/", "storage/", "skills/", "tests/", "docs/", "scripts/", ".ci/")
    named = {word for word in re.findall(r"`([^`\s]+)`", read(name)) if word.startswith(tops) and "<" not in word}
    assert {word for word in named if not (ROOT / word).exists()} == set()


def test_every_decision_is_listed_in_order_and_under_its_title():
    folder = ROOT / "docs" / "decisions"
    pages = sorted(folder.glob("0*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for page in pages]
    listed = re.findall(r"^(\d+\. )\[(.+)\]\((.+)\)$", read("docs/decisions/README.md"), re.MULTILINE)
    assert [(number + title, name) for number, title, name in listed] == [
        (title, page.name) for title, page in zip(titles, pages, strict=True)
    ]
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))


def test_constraints_are_names_and_versions_and_nothing_else():
    lines = read("constraints.txt").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line)] == []
    assert lines == sorted(set(lines), key=lambda line: line.lower().split("=="))


def test_constraints_pin_every_requirement_of_the_project():
    import tomllib

    def name(requirement):
        return re.split(r"[<>=!~\[ ;]", requirement)[0].lower().replace("_", "-")

    project = tomllib.loads(read("pyproject.toml"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    pinned = {name(line) for line in read("constraints.txt").splitlines()}
    assert {name(requirement) for requirement in wanted} - pinned == {project["name"]}  # dev takes in the other extras


@pytest.mark.parametrize(
    ("script", "shell"),
    [("scripts/check", "sh"), ("scripts/docs", "sh"), ("scripts/generate", "sh"), (".ci/run", "bash")],
)
def test_a_script_parses_and_can_be_started(script, shell):
    subprocess.run([shell, "-n", ROOT / script], check=True)
    assert (ROOT / script).stat().st_mode & 0o111
