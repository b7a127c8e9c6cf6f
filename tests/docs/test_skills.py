"""The Skills: in the strict form, and naming only tools, fields and values that exist."""

import re
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from operations.registry import all_operations

ROOT = Path(__file__).parents[2] / "skills"
NAMES = ("atk-dataset", "atk-decide", "atk-diagnose", "atk-eval", "atk-init", "atk-optimize", "atk-validate")
every_skill = pytest.mark.parametrize("name", NAMES)

OTHER = {
    "atk",  # the server
    "DATASET/CASE", "batch-14-m3qa.7",  # examples of ids
    "variable", "fixed", "rows", "user", "worktree",
    ".atk/", "[]",
}  # fmt: skip


def text_of(name):
    return (ROOT / name / "SKILL.md").read_text(encoding="utf-8")


def vocabulary():
    """Returns every field and every literal value of all requests and responses, at any depth."""
    found, seen = set(), set()

    def visit(kind):
        if typing.get_origin(kind) is typing.Literal:
            found.update(str(value) for value in typing.get_args(kind))
        elif isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
            seen.add(kind)
            for field, info in kind.model_fields.items():
                found.add(field)
                visit(info.annotation)
        for part in typing.get_args(kind):
            visit(part)

    for operation in all_operations().values():
        visit(operation.request)
        visit(operation.response)
    return found


def results():
    from storage.schema import assessments, batches, datasets, validations

    kinds = (batches.BatchStatus, validations.Result, assessments.Verdict, assessments.Validity, datasets.Usage)
    return {value for kind in kinds for value in typing.get_args(kind)}


def test_there_are_seven_skills_and_one_contract():
    assert sorted(path.parent.name for path in ROOT.glob("*/SKILL.md")) == list(NAMES)
    assert (ROOT / "CONTRACT.md").is_file()


@every_skill
def test_a_skill_has_the_strict_front_matter(name):
    head = re.match(r"---\nname: (.+)\ndescription: (.+)\n---\n\n# \S", text_of(name))
    assert head, "front matter is name and description, then a title"
    given, description = head.groups()
    assert given == name
    assert re.fullmatch(r"[a-z0-9-]{1,64}", given)
    assert len(description) <= 250
    assert not set("<>:#") & set(description)
    assert "Use " in description, "it says when to use it"
    assert "Not for" in description, "it says where it ends"


@every_skill
def test_a_skill_says_everything_that_one_has_to_say(name):
    text = text_of(name)
    missing = [
        part for part in ("## The person decides", "## Never", "## Stop when", "## End with") if part not in text
    ]
    assert missing == []
    assert "MCP server `atk`" in text
    assert "(../CONTRACT.md)" in text


@pytest.mark.parametrize("page", ["CONTRACT.md", *(f"{name}/SKILL.md" for name in NAMES)])
def test_a_skill_names_only_tools_fields_and_values_that_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    known = vocabulary() | results() | set(all_operations()) | OTHER
    named = set(re.findall(r"`([^`]+)`", text)) - {f"${name}" for name in NAMES}
    named = {word for word in named if not re.fullmatch(r"\{\w+\}", word)}
    assert named - known == set()


def test_placeholders_in_the_skills_are_those_that_a_command_may_have():
    from operations.execution.command import PLACEHOLDERS

    named = {word for name in NAMES for word in re.findall(r"`\{(\w+)\}`", text_of(name))}
    assert named <= set(PLACEHOLDERS)


def test_every_operation_is_named_in_some_skill():
    everything = "".join(text_of(name) for name in NAMES)
    assert [operation for operation in all_operations() if f"`{operation}`" not in everything] == []


@every_skill
def test_a_skill_declares_the_server_so_that_codex_waits_for_it(name):
    lines = (ROOT / name / "agents" / "openai.yaml").read_text(encoding="utf-8").splitlines()
    start = lines.index("dependencies:")
    assert lines[start + 1 : start + 4] == ["  tools:", '    - type: "mcp"', '      value: "atk"']
    assert '      command: "atk-mcp"' in lines


@every_skill
def test_a_skill_sends_nobody_to_a_shell(name):
    assert re.findall(r"```|\batk call\b|\bpython3?\b|\bbash\b", text_of(name)) == []
