"""What differs by attempt: variables, folders, and how a declared variable that nobody set is told."""

import os

import pytest

from operations.execution.adapters.options import (
    BadAdapterOption,
    CodexSkillOptions,
    HttpOptions,
    PythonOptions,
    check_options,
)
from operations.execution.adapters.process import agent_process
from operations.execution.adapters.variables import EnvFileUnusable, VariablesMissing, read_env_file
from operations.execution.preparation import asked
from storage.schema.projects import Project


def project(**fields):
    usual = {
        "id": "project-1-abcd",
        "workspace_path": "/target",
        "created_at": "2024-05-06T07:08:09+00:00",
        "analysis_only": True,
        "command": ("sh", "-c", 'echo "$MODE|$PWD|$1"', "sh", "{input}"),
        "run_config_digest": "0" * 64,
    }
    return Project(**{**usual, **fields})


def run(bench, made, inputs=("hi",), **settings):
    process = agent_process(made, bench.target, timeout_seconds=30)
    return bench.run(
        process.command,
        inputs,
        environment=process.environment,
        working_directory=process.working_directory,
        infrastructure_exit_codes=process.infrastructure_exit_codes,
        **settings,
    )


def test_a_command_is_started_as_it_is(tmp_path):
    made = project(infrastructure_exit_codes=(9,), working_directory="sub")
    process = agent_process(made, str(tmp_path), timeout_seconds=30, source={"PATH": "/bin", "OTHER": "x"})
    assert process.command == made.command
    assert process.working_directory == str(tmp_path / "sub")
    assert process.infrastructure_exit_codes == (9,)
    assert process.environment == {"PATH": "/bin", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize(
    ("adapter", "options"), [("http", {"endpoint": "http://127.0.0.1:1/"}), ("codex-skill", {"skill_path": "skills/a"})]
)
def test_the_adapters_of_atk_write_events_where_they_are_read(tmp_path, adapter, options):
    made = project(command=(), adapter=adapter, adapter_options=options)
    template = agent_process(made, str(tmp_path), timeout_seconds=30).command
    assert template[template.index("--events-file") + 1] == "{events_file}"
    assert "events_file" in asked(template)


def test_each_attempt_has_its_own_variables_and_folder(bench):
    for number in range(2):
        os.makedirs(os.path.join(bench.target, "cases", f"c{number}"))
    made = project(
        case_environment={"MODE": "case {case_id}, {repeat_index} {{x}}"}, case_working_directory="cases/{case_id}"
    )
    records = run(bench, made, ["one", "two $HOME"])
    assert [record.output.strip() for record in records] == [
        f"case c0, 1 {{x}}|{bench.target}/cases/c0|one",
        f"case c1, 1 {{x}}|{bench.target}/cases/c1|two $HOME",
    ]


def test_a_folder_that_is_not_there_or_leads_out_is_not_the_agents_failure(bench):
    assert [r.execution.status for r in run(bench, project(case_working_directory="no/{case_id}"))] == ["infra_error"]


def test_a_case_id_cannot_lead_out_of_the_target(bench):
    made = project(case_working_directory="{input}")
    (record,) = run(bench, made, ["../work"])
    assert record.execution.status == "infra_error"
    assert "leaves the target" in record.stderr_tail


def test_an_agent_that_is_missing_is_infrastructure_with_a_folder_of_its_own_too(bench):
    (record,) = run(bench, project(command=("no-such-agent", "{input}"), case_working_directory="."))
    assert record.execution.status == "infra_error"


def test_the_file_of_variables_reaches_the_agent_and_a_missing_one_is_named(tmp_path):
    (tmp_path / ".env").write_text("export MODE='a b'\n# c\nN=1 # one\nM=\"x\\n\"\nEMPTY=\n", encoding="utf-8")
    made = project(env_file=".env", environment=("MODE", "ELSEWHERE", "NOWHERE"))
    with pytest.raises(VariablesMissing) as missing:
        agent_process(made, str(tmp_path), timeout_seconds=1, source={"ELSEWHERE": "y"})
    assert missing.value.names == ["NOWHERE"]
    process = agent_process(made, str(tmp_path), timeout_seconds=1, source={"ELSEWHERE": "y", "NOWHERE": ""})
    del process.environment["PYTHONDONTWRITEBYTECODE"]
    assert process.environment == {
        "MODE": "a b",
        "N": "1",
        "M": "x\n",
        "EMPTY": "",
        "ELSEWHERE": "y",
        "NOWHERE": "",
    }


def test_a_name_that_left_the_file_since_initialization_is_missing(tmp_path):
    (tmp_path / ".env").write_text("A=1\n", encoding="utf-8")
    made = project(env_file=".env", env_file_names=("A", "B"))
    with pytest.raises(VariablesMissing, match="B"):
        agent_process(made, str(tmp_path), timeout_seconds=1, source={})


@pytest.mark.parametrize("content", [b"A=1\nsecret value\n", b"1A=secret\n", b"\xff\xfe\x00"])
def test_an_unusable_file_is_named_and_shows_no_value(tmp_path, content):
    (tmp_path / ".env").write_bytes(content)
    with pytest.raises(EnvFileUnusable) as unusable:
        read_env_file(str(tmp_path / ".env"), ".env")
    assert "secret" not in str(unusable.value)


def test_a_pipe_in_the_place_of_the_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".env")
    for path in (str(tmp_path / ".env"), str(tmp_path)):
        with pytest.raises(EnvFileUnusable, match="not a regular file"):
            read_env_file(path, ".env")


def test_a_value_may_hold_what_ends_a_line_elsewhere(tmp_path):
    (tmp_path / ".env").write_bytes("A=one\u2028two\x0cthree\r\nB='\x85'\rC=3".encode())
    assert read_env_file(str(tmp_path / ".env"), ".env") == {"A": "one\u2028two\x0cthree", "B": "\x85", "C": "3"}


def test_an_unknown_option_is_told_with_the_closest_and_all_that_are_allowed():
    with pytest.raises(BadAdapterOption) as bad:
        check_options("http", {"endpoint": "http://localhost/", "output_feild": "text"})
    assert (bad.value.option, "output_field" in bad.value.problem) == ("output_feild", True)
    assert "endpoint" in bad.value.allowed


@pytest.mark.parametrize(
    ("adapter", "options", "option"),
    [
        ("command", {"x": 1}, "x"),
        ("http", {}, "endpoint"),
        ("http", {"endpoint": "localhost:8000"}, "endpoint"),
        ("http", {"endpoint": "http://h:99999/"}, "endpoint"),
        ("http", {"endpoint": "http://h/", "statuses": {"6xx": "completed"}}, "statuses"),
        ("codex-skill", {"skill_path": "skills/a", "prompt": "do it"}, "prompt"),
        ("codex-skill", {"skill_path": "skills/A b"}, "skill_name"),
        ("python", {"call": "module"}, "call"),
    ],
)
def test_a_wrong_option_is_named(adapter, options, option):
    with pytest.raises(BadAdapterOption) as bad:
        check_options(adapter, options)
    assert bad.value.option == option


def test_a_skill_is_named_after_its_folder_unless_told_otherwise():
    found = check_options("codex-skill", {"skill_path": "skills/triage/"})
    assert isinstance(found, CodexSkillOptions)
    assert found.skill_name == "triage"


@pytest.mark.parametrize("options", [HttpOptions, CodexSkillOptions, PythonOptions])
def test_the_how_to_speaks_of_every_option(options):
    page = os.path.join(os.path.dirname(__file__), "..", "..", "..", "..", "docs", "how-to", "write-an-adapter.md")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert [name for name in options.model_fields if f"`{name}`" not in text and f'"{name}"' not in text] == []
