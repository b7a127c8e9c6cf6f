"""The page on adapters names every placeholder and every option that there is."""

import re
from pathlib import Path

import pytest

from operations.execution.adapters import options
from operations.execution.command import PLACEHOLDERS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "write-an-adapter.md").read_text(encoding="utf-8")


def section(title):
    return PAGE.partition(f"\n## {title}")[2].partition("\n## ")[0]


def test_every_placeholder_is_told_in_the_contract():
    told = re.search(r"placeholders in `command` are filled in: (.+?)\. `\{\{`", PAGE, re.DOTALL)[1]
    assert tuple(re.findall(r"`\{(\w+)\}`", told)) == PLACEHOLDERS


@pytest.mark.parametrize(
    ("title", "model"),
    [
        ("`http`", options.HttpOptions),
        ("`codex-skill`", options.CodexSkillOptions),
        ("`python`", options.PythonOptions),
    ],
)
def test_every_option_of_an_adapter_is_told_in_its_part(title, model):
    told = set(re.findall(r"[`\"](\w+)[`\"]", section(title)))
    assert set(model.model_fields) - told == set()
