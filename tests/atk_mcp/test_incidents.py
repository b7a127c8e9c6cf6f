"""A crash is put on record where the project's owner finds it, and secrets are not."""

import json

from atk_mcp import incidents
from operations.catalog.projects.initialize_project import initialize_project
from operations.invocation import invoke

SECRET = "sk-proj-abcdefghijklmnopqrstuvwx0123456789ABCDEF"


def crash():
    def fail():
        raise RuntimeError(f"api_key={SECRET}")

    try:
        fail()
    except RuntimeError as error:
        return error


def test_the_stack_lies_masked_in_the_projects_log(tmp_path, capsys):
    invoke(initialize_project, {"project_path": str(tmp_path), "analysis_only": True})
    first = incidents.record(crash(), "store_dataset", {"project_path": str(tmp_path), "source": SECRET})
    second = incidents.record(crash(), "get_status", {"project_path": str(tmp_path)})
    log = tmp_path / ".atk" / "log" / "incidents.jsonl"
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [entry["incident_id"] for entry in entries] == [first, second]
    assert entries[0]["operation"] == "store_dataset"
    assert entries[0]["arguments"] == ["project_path", "source"]
    assert "RuntimeError" in entries[0]["stack"]
    assert "in crash" in entries[0]["stack"]
    assert SECRET not in log.read_text(encoding="utf-8")
    assert log.stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr().err == ""


def test_a_log_that_is_a_link_is_not_followed(tmp_path, capsys):
    invoke(initialize_project, {"project_path": str(tmp_path), "analysis_only": True})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / ".atk" / "log").symlink_to(elsewhere)
    told = incidents.record(crash(), "get_status", {"project_path": str(tmp_path)})
    assert list(elsewhere.iterdir()) == []
    assert told in capsys.readouterr().err
