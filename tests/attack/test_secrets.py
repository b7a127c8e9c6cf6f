"""A credential in any field of any operation: it is neither kept nor sent back."""

import json
import os

import pytest

from atk_mcp import results, snapshot
from operations.catalog.projects.initialize_project import SecretInConfiguration
from operations.invocation import InvalidArguments, invoke
from operations.registry import all_operations
from storage.errors import AtkError
from tests.support.placing import placed
from tests.support.projects import Target

TOKEN = "sk-" + "proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCd"
TEXT = f"use {TOKEN} for it"


def told(name, arguments):
    """Returns all that a client is told, whether the call is refused or not."""
    try:
        return results.of_response(invoke(all_operations()[name], arguments))
    except AtkError as error:
        return results.of_error(error)


def kept(root):
    """Names the files of the store that hold the credential."""
    found = []
    for folder, _, names in os.walk(os.path.join(root, ".atk")):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                if TOKEN.encode() in file.read():
                    found.append(name)
    return found


@pytest.mark.parametrize("name", sorted(all_operations()))
def test_no_field_of_a_request_keeps_a_credential_or_sends_it_back(tmp_path, name):
    target = Target(tmp_path, initialize=name != "initialize_project")
    usual = {"command": ["true"], "external_effects": [], "allowed_paths": ["prompt.txt"]}
    always = usual if name == "initialize_project" else {}
    for arguments in placed(snapshot.tool(all_operations()[name])["inputSchema"], TEXT):
        answer = told(name, {**always, **arguments, "project_path": arguments.get("project_path", target.root)})
        assert TOKEN not in json.dumps(answer), arguments
        assert kept(target.root) == [], arguments


@pytest.mark.parametrize(
    "settings",
    [
        {"runtime_notes": TEXT},
        {"command": ["sh", "agent.sh", "--api-key", "swordfish99"]},
        {"command": ["sh", "-c", "PASSWORD=swordfish99 ./agent"]},
        {"case_environment": {"SERVICE_PASSWORD": "swordfish99"}},
        {"loading_verification": {"prompt": f"curl -H 'Authorization: Bearer {TOKEN}'"}},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_credential_in_the_configuration_is_refused_with_its_place_and_nothing_is_made(tmp_path, settings):
    target = Target(tmp_path, initialize=False)
    with pytest.raises(SecretInConfiguration) as refused:
        target.initialize(**settings)
    assert refused.value.places[0].startswith(next(iter(settings)))
    assert not os.path.exists(target.path(".atk"))


def test_names_of_variables_and_templates_are_no_credentials(tmp_path):
    Target(
        tmp_path,
        environment=["OPENAI_API_KEY"],
        case_environment={"SESSION_TOKEN": "case-{case_id}"},
        redact_keys=["api_key", "password"],
        runtime_notes="Set OPENAI_API_KEY; the password is asked for at the start.",
    )


def test_a_credential_as_request_id_is_refused_since_it_would_be_kept(tmp_path):
    target = Target(tmp_path)
    with pytest.raises(InvalidArguments, match="request_id"):
        target.call("store_dataset", source="cases.csv", request_id=TOKEN)


def test_one_secret_has_one_mask_in_what_is_told_of_a_project(tmp_path):
    target = Target(tmp_path)
    masks = {
        told("store_dataset", {"project_path": target.root, "source": f"{TOKEN}.{ending}"})["structuredContent"][
            "message"
        ].split("[masked:")[1][:16]
        for ending in ("csv", "jsonl")
    }
    assert len(masks) == 1
