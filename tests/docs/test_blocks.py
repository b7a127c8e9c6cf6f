"""Every block of code in the documents is run or read by a test, or says why not; commands that are named exist."""

import argparse
import json
import re
import tomllib
from pathlib import Path

import pytest

from atk_mcp.inspector import build_parser
from operations.registry import all_operations
from tests.support.fences import blocks_of

ROOT = Path(__file__).parents[2]
PLACES = ("README*.md", "docs/*.md", "docs/how-to/*.md", "docs/decisions/*.md")
PAGES = sorted(page for place in PLACES for page in ROOT.glob(place))
TESTS = {test: test.read_text(encoding="utf-8") for test in ROOT.glob("tests/**/*.py") if test != Path(__file__)}
OPTION = re.compile(r"(status=\d+|file=\S+|request=\w+|output|not-run: \S.*)?")
RUN = {"sh", "python"}

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@every_page
def test_what_follows_a_language_is_known(page):
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    strange = [(block.line, block.rest) for block in blocks if not OPTION.fullmatch(block.rest)]
    assert strange == []
    assert [block.line for block in blocks if block.is_output and block.language != "text"] == []


@every_page
def test_a_page_with_commands_is_followed_by_a_test(page):
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    typed = [block for block in blocks if block.language in RUN and block.why_not is None]
    followed = page.stem in ("README.zh", "README") or any(page.stem in text for text in TESTS.values())
    assert followed or not typed


@every_page
def test_settings_and_requests_on_a_page_can_be_read(page):
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.language == "json" and block.why_not is None:
            for text in block.text.splitlines() if (block.option("file") or "").endswith("l") else [block.text]:
                json.loads(text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        if operation := block.option("request"):
            all_operations()[operation].request.model_validate_json(block.text)


def commands():
    """Returns the options of each command of `atk`."""
    (found,) = (x for x in build_parser()._actions if isinstance(x, argparse._SubParsersAction))
    return {name: set(parser._option_string_actions) for name, parser in found.choices.items()}


SKILLS = sorted((ROOT / "skills").glob("**/*.md"))


@pytest.mark.parametrize("page", [*PAGES, *SKILLS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_named_on_a_page_is_one_of_atk(page):
    known = commands()
    for line in re.findall(r"(?:^|`|&& )atk ([a-z][^`#\n]*)", page.read_text(encoding="utf-8"), re.MULTILINE):
        name, *rest = re.split(r" --request| -- | && ", line)[0].split()
        assert name in known, line
        named = {word.partition("=")[0].strip(".,;") for word in rest if word.startswith("--")}
        told = known[name] | {option for inner in inner_options(name) for option in inner}
        assert named - told == set(), line


def inner_options(name):
    """Yields the options of each command within a command, such as `atk trace record`."""
    (found,) = (x for x in build_parser()._actions if isinstance(x, argparse._SubParsersAction))
    for action in found.choices[name]._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from (set(parser._option_string_actions) for parser in action.choices.values())
