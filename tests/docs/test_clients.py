"""The pages about clients and the inspector say what the program does."""

import argparse
import re
from pathlib import Path

import pytest

from atk_mcp import __main__, exits, inspector, resources, snapshot, toolsets
from atk_mcp.door import PATH
from operations.registry import all_operations

DOCS = Path(__file__).parents[2] / "docs"
CLIENTS = (DOCS / "clients.md").read_text(encoding="utf-8")
INSPECTOR = (DOCS / "inspector.md").read_text(encoding="utf-8")


def status_of(*command):
    """Runs `atk` and returns its exit status."""
    try:
        return inspector.main(list(command))
    except SystemExit as ended:
        return ended.code


def test_every_set_is_in_the_table_with_whether_it_is_on():
    told = dict(re.findall(r"^\| `([a-z]+)` \| [^|]+ \| ([^|]+) \|$", CLIENTS, re.MULTILINE))
    on = set(toolsets.by_default(tuple(toolsets.ABOUT)))
    assert set(told) == set(toolsets.ABOUT) >= set(snapshot.load_toolsets())
    assert {name for name, said in told.items() if said in ("yes", "always")} == on
    assert told[toolsets.CORE] == "always"


def test_every_resource_is_in_the_table_beside_a_tool_that_there_is():
    kinds = {
        template["uriTemplate"].partition("://")[2].partition("/")[0].partition("{")[0]
        for template in resources.TEMPLATES
    }
    rows = re.findall(r"^\| (`atk://[^|]+) \| `([a-z_]+)`", CLIENTS, re.MULTILINE)
    assert {tool for _, tool in rows} <= set(all_operations())
    shown = " ".join(resource for resource, _ in rows)
    assert [kind for kind in sorted(kinds) if kind not in shown] == []


def test_the_address_is_the_one_that_is_served():
    assert f"http://127.0.0.1:{__main__.PORT}{PATH}" in CLIENTS


@pytest.mark.parametrize("page", [CLIENTS, INSPECTOR])
def test_every_command_on_the_page_is_one_of_atk(page):
    (commands,) = (x for x in inspector.build_parser()._actions if isinstance(x, argparse._SubParsersAction))
    named = set(re.findall(r"^atk ([a-z]+)|`atk ([a-z]+)", page, re.MULTILINE))
    assert {first or second for first, second in named} <= set(commands.choices)


def test_every_exit_status_is_told_on_the_page_and_in_the_help(capsys):
    statuses = {exits.OK, exits.REFUSED, exits.USAGE, exits.INTERNAL, exits.INTERRUPTED}
    told = re.findall(r"^\| ([0-9, ]+) \| ", INSPECTOR, re.MULTILINE)
    assert {int(number) for cell in told for number in cell.split(",")} == {*statuses, 143}
    assert status_of("--help") == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"\b{number}\b", shown.partition("exit status:")[2]) for number in statuses)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["--version"], 0),
        (["tools", "--json"], 0),
        (["completion", "fish"], 0),
        (["journal", "--json"], 1),
        (["call", "read_record", "--request", '{"record_id": "x"}', "--json"], 1),
        (["trace", "show", "no-such-file"], 1),
        ([], 2),
        (["no-such-command"], 2),
        (["tools", "no_such_tool"], 2),
        (["call", "get_status", "--request", "[]"], 2),
        (["trace"], 2),
        (["trace", "record", "file"], 2),
        (["completion", "no-such-shell"], 2),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_a_command_ends_with_the_status_that_the_page_says(command, status, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert status_of(*command) == status
