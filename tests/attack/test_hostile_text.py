"""A hostile text in any field of any operation is answered or refused; it crashes nothing and nothing of it runs."""

import json
import os

import pytest

from atk_mcp import results, snapshot
from operations.invocation import invoke
from operations.registry import all_operations
from storage.errors import AtkError
from tests.support.placing import placed
from tests.support.projects import Target

TEXTS = {
    "a character that no path can hold": "a\0b",
}
MORE = {
    "half a character": "\ud800",
    "an option": "--output=pwned",
    "a way out": "../../outside",
    "a shell": "$(touch pwned)",
}

every_text = pytest.mark.parametrize(
    "text",
    [pytest.param(text, id=kind) for kind, text in TEXTS.items()]
    + [pytest.param(text, id=kind, marks=pytest.mark.slow) for kind, text in MORE.items()],
)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    made = Target(tmp_path_factory.mktemp("hostile") / "target")
    made.store_cases()
    return made


def answered(name, arguments):
    """Returns what a client is sent."""
    try:
        return results.of_response(invoke(all_operations()[name], arguments))
    except AtkError as error:
        return results.of_error(error)


@every_text
@pytest.mark.parametrize("name", sorted(set(all_operations()) - {"initialize_project"}))
def test_it_is_answered_or_refused_and_nothing_runs(target, name, text):
    for arguments in placed(snapshot.tool(all_operations()[name])["inputSchema"], text):
        answer = answered(name, {"project_path": target.root, **arguments})
        assert json.dumps(answer, ensure_ascii=False).encode()  # half a character in it could not be sent
    walked = os.walk(os.path.dirname(target.root))
    assert not [f for folder, _, names in walked for f in names if f in ("pwned", "outside")]


@every_text
def test_in_a_configuration_it_is_stored_or_refused(tmp_path, text):
    fields = snapshot.tool(all_operations()["initialize_project"])["inputSchema"]
    usual = {"command": ["true"], "external_effects": [], "allowed_paths": ["prompt.txt"]}
    target = Target(tmp_path / "target")
    for arguments in placed(fields, text):
        given = {**usual, "revise": True, "project_path": target.root, **arguments}
        assert json.dumps(answered("initialize_project", given), ensure_ascii=False).encode()
    assert not os.path.exists(tmp_path / "outside")
    assert not os.path.exists(target.path("pwned"))
