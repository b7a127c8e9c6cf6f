"""Resources and prompts through the SDK's own client, in both protocol eras: the tools' facts and the Skills."""

import json
from urllib.parse import urlencode

import pytest
from mcp import Client, MCPError

from atk_mcp.server import build_server
from operations.registry import all_operations

pytestmark = pytest.mark.anyio
SKILLS = ["atk-dataset", "atk-decide", "atk-diagnose", "atk-eval", "atk-init", "atk-optimize", "atk-validate"]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def client(request):
    return Client(build_server(all_operations()), mode=request.param)


async def test_stored_objects_are_read_as_the_tool_reads_them(client, at, monkeypatch):
    target = at("compared")
    monkeypatch.chdir(target.root)
    validation_id = next(iter(target.state.objects["validation"]))
    uris = {
        f"atk://rounds/{target.round_id}": target.round_id,
        f"atk://batches/{target.left_batch_id}": target.left_batch_id,
        f"atk://assessments/{target.left_assessment_id}": target.left_assessment_id,
        f"atk://validations/{validation_id}": validation_id,
        "atk://journal/1": "journal-1",
        f"atk://records/{target.left_batch_id}.1": f"{target.left_batch_id}.1",
    }
    async with client:
        templates = [found.uri_template for found in (await client.list_resource_templates()).resource_templates]
        assert {uri.partition("/{id}{?")[0] for uri in templates} >= {uri[: uri.rindex("/")] for uri in uris}
        for uri, record_id in uris.items():
            shown = (await client.read_resource(uri)).contents[0]
            by_tool = await client.call_tool("read_record", {"record_id": record_id})
            assert json.loads(shown.text) == by_tool.structured_content
            assert len(shown.text.encode()) <= 8_000
        (status,) = (await client.list_resources()).resources
        assert json.loads((await client.read_resource(status.uri)).contents[0].text)["message"]


async def test_what_is_long_is_read_field_by_field_of_any_project(client, at):
    target = at("compared")
    asked = {"field": "rows.0", "project_path": str(target.root)}
    uri = f"atk://assessments/{target.left_assessment_id}?{urlencode(asked)}"
    async with client:
        shown = (await client.read_resource(uri)).contents[0]
        by_tool = await client.call_tool("read_record", {"record_id": target.left_assessment_id, **asked})
        status = (await client.read_resource(f"atk://status?project_path={target.root}")).contents[0]
    assert json.loads(shown.text) == by_tool.structured_content
    assert json.loads(status.text)["message"]


@pytest.mark.parametrize(
    "uri",
    ["atk://status?round_id=1", "atk://rounds/round-9-none", "atk://nothing/1", "file:///etc/passwd", "atk://rounds/"],
)
async def test_what_is_not_there_is_a_protocol_error_with_its_uri(client, at, monkeypatch, uri):
    monkeypatch.chdir(at("initialized").root)
    async with client:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
    assert refused.value.error.code == -32602
    assert refused.value.error.data["uri"] == uri


async def test_the_seven_skills_are_prompts_with_their_shared_rules(client):
    async with client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == SKILLS
        for name in SKILLS:
            found = await client.get_prompt(name, {"task": "Look at the refunds."})
            text = found.messages[0].content.text
            assert "What holds in every ATK Skill" in text
            assert text.endswith("Look at the refunds.")
        with pytest.raises(MCPError, match="no prompt"):
            await client.get_prompt("atk-none")
