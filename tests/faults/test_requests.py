"""Faults of asking and answering: malformed and misspelt requests, answers of any size (B1, B2, B5)."""

import json

import pytest

from atk_mcp.results import LIMIT
from operations.definition import Effect
from operations.registry import all_operations
from tests.faults.story import Story, Wire, atk

MALFORMED = (
    {},
    {"project_path": 7},
    {"project_path": "/nowhere/at/all"},
    {"project_path": "\0"},
    {"round_id": None, "batch_id": [], "record_id": {}, "source": 1, "candidate_id": "../../etc"},
    {"round_id": "round-1-none", "batch_id": "batch-1-none", "record_id": "x", "source": "no-such-file.csv"},
    {"request_id": ["a"]},
    {"reason": "", "action": "explode", "plan": "all", "issues": [{}], "rows": [None], "paths": "x"},
)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Story(tmp_path_factory.mktemp("requests"))


@pytest.fixture(scope="module")
def server(project):
    with Wire(project.target.root, "--toolsets", "all") as wire:
        yield wire


@pytest.mark.parametrize("name", sorted(all_operations()))
def test_b1_every_malformed_request_gets_an_answer_with_a_code_and_no_stack(server, project, name):
    """ATK 1.0.0 answered 11 of 11 operations with a traceback and no response."""
    before, fine = project.target.state.position.number, 0
    for arguments in MALFORMED:
        result = server.call(name, **arguments)
        text = result["content"][0]["text"]
        assert "Traceback" not in text
        assert "pydantic" not in text.lower()
        fine += not result["isError"]  # an operation that needs no argument takes none
        if result["isError"]:
            structure = result["structuredContent"]
            assert structure["code"] != "internal_error", structure
            assert set(structure) == {"code", "message", "facts", "next"}
            assert text.startswith(f"Error [{structure['code']}] ")
    assert project.target.state.position.number <= before + fine


@pytest.mark.parametrize("name", sorted(all_operations()))
def test_b2_an_unknown_field_is_refused_and_the_closest_known_one_is_named(server, name):
    """ATK 1.0.0 accepted misspelt fields and ignored them."""
    fields = list(all_operations()[name].request.model_fields)
    for known in fields:
        result = server.call(name, **{f"{known}x": "a value"})
        assert result["isError"]
        assert result["structuredContent"]["code"] == "invalid_arguments"
        assert f"{known}x is not a field (did you mean {known}?)" in result["content"][0]["text"]


def test_b1_the_inspector_answers_a_malformed_request_with_the_same_refusal_and_no_stack(project):
    """ATK 1.0.0's command line ended in a traceback."""
    for request in ("{", "[]", '"text"', "null", '{"issues": 1}', '{"a": NaN}', "{}"):
        done = atk(
            "call", "store_diagnosis", "--request", "-", "--json", "--project", project.target.root, stdin=request
        )
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        assert done.stderr.strip()


def test_b5_answers_stay_small_however_much_they_are_about(tmp_path):
    """ATK 1.0.0 answered with whole objects: 439 KB for a run of 1,000 Cases, 33 MB for 100,000 observations."""
    story = Story(tmp_path, command=["echo", "{case_id}"])
    story.target.write_cases([(f"case-{n}-{'x' * 60}", f"text {n} " * 20, f"answer {n}") for n in range(3000)])
    with Wire(story.target.root) as server:
        sizes = {}

        def ask(name, **arguments):
            result = server.call(name, **arguments)
            assert not result["isError"], result
            structure = result["structuredContent"]
            sizes[name] = max(sizes.get(name, 0), len(json.dumps(structure, ensure_ascii=False).encode()))
            assert json.loads(result["content"][0]["text"]) == structure
            return structure

        dataset = ask("store_dataset", source="cases.csv")
        cases = [f"case-{n}-{'x' * 60}" for n in range(60)]
        asked = {"dataset_id": dataset["dataset_id"], "case_ids": cases, "wait_seconds": 100, "concurrency": 4}
        batch_id = ask("run_evaluation", revision_commit=story.target.head, **asked)["batch_id"]
        spec = {"dimensions": ["correct"], "dimension_rules": {"correct": "equal"}}
        judged = ask("store_assessment", batch_id=batch_id, evaluation_spec=spec, judger={"method": "exact"})
        ask("get_status")
        ask("wait_for_batch", batch_id=batch_id)
        for record_id in (dataset["dataset_id"], batch_id, f"{batch_id}.1", judged["assessment_id"], "journal-3"):
            fields = ask("read_record", record_id=record_id)["fields"]
            for field in fields:
                ask("read_record", record_id=record_id, field=field)
        read, cursor = 0, None
        while True:
            page = ask("read_record", record_id=batch_id, field="records", **({"cursor": cursor} if cursor else {}))
            read += len(page["value"])
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert read == 60
    assert max(sizes.values()) <= LIMIT * 1.1, sizes


def test_b2_a_misspelt_field_deep_in_a_request_is_named_by_its_place(server):
    """ATK 1.0.0 ignored `allowed_path` in a plan, and the default counted."""
    result = server.call("freeze_round", round_id="round-1-none", plan={"budget": {"execution": 3}})
    assert result["structuredContent"]["code"] == "invalid_arguments"
    assert "plan.budget.execution" in result["content"][0]["text"]


def test_b1_reading_operations_answer_in_a_folder_that_is_no_project(tmp_path):
    """ATK 1.0.0 ended with FileNotFoundError."""
    assert [o for o in all_operations().values() if o.effect is Effect.READ]
    with Wire(str(tmp_path)) as server:
        assert server.done("get_status")["initialized"] is False
        refused = server.call("read_record", record_id="round-1-none")
        assert refused["structuredContent"]["code"] == "project_not_initialized"
        assert refused["structuredContent"]["next"][0]["tool"] == "initialize_project"
