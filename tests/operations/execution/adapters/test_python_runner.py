"""A Python callable as an agent: what it returns is the output, and nothing of the target has to know ATK."""

import ast
import os
import signal
import sys

import pytest

from operations.execution.adapters import process, runner_template
from operations.execution.adapters.process import AdapterScriptChanged, agent_process, pinned_runner
from storage.frames import digest
from storage.schema.projects import Project

AGENT = """\
import asyncio

class RateLimited(Exception):
    pass

class Desk:
    @staticmethod
    async def later(value):
        await asyncio.sleep(0)
        return {"later": value}

def answer(value):
    print("thinking")
    return "answer to " + value

def knows(value, case_id, repeat_index, attachments, output_dir, other=5):
    open(output_dir + "/loading.json", "w").write('[{"component_id": "code"}]')
    return [case_id, repeat_index, attachments, other]

def tells(value, events_file):
    open(events_file, "w").write('{"type": "tool", "name": "search"}\\n')
    return "told"

def fails(value):
    raise KeyError("broken")

def limited(value):
    raise RateLimited("later")

def leaves(value):
    raise SystemExit(value)

def vanishes(value):
    import os
    os.write(1, b"not an answer")
    os._exit(value)

def becomes(value):
    import os
    os.execv("/bin/true", ["/bin/true"])

def dies(value):
    import os
    os.kill(os.getpid(), value)

def leaves_one_running(value):
    import subprocess, sys
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    return "left"

def closes(value):
    import sys
    sys.stdout.close()
    return "a\\ud800b"
"""


@pytest.fixture
def call(bench):
    """Calls a function of the target's module as attempts do."""
    with open(os.path.join(bench.target, "desk.py"), "w") as file:
        file.write(AGENT)

    def made(name, inputs=("hi",), **options):
        project = Project(
            id="project-1-abcd",
            workspace_path=bench.target,
            created_at="2024-05-06T07:08:09+00:00",
            analysis_only=True,
            python=sys.executable,
            adapter="python",
            adapter_options={"call": f"desk:{name}", **options},
            adapter_sha256=digest(process.runner_template()),
            run_config_digest="0" * 64,
        )
        agent = agent_process(project, bench.target, timeout_seconds=30)
        (record,) = bench.run(
            agent.command,
            inputs,
            environment=agent.environment,
            infrastructure_exit_codes=agent.infrastructure_exit_codes,
        )
        return record

    return made


def test_the_returned_text_is_the_output_and_what_is_printed_is_not(call):
    record = call("answer")
    assert (record.execution.status, record.output) == ("completed", "answer to hi")
    assert "thinking" in record.stderr_tail


def test_a_coroutine_is_awaited_and_another_value_is_json(call):
    assert call("Desk.later", [{"n": 1}]).output == '{"later": {"n": 1}}'


def test_a_function_gets_what_else_it_asks_for_by_name(call):
    record = call("knows")
    assert record.output == '["c0", 1, [], 5]'
    assert record.loading_evidence == ({"component_id": "code"},)


def test_events_that_a_function_writes_become_part_of_the_record(call):
    record = call("tells")
    assert (record.output, record.events) == ("told", ({"type": "tool", "name": "search"},))


def test_a_script_that_an_earlier_version_wrote_is_not_told_of_what_it_does_not_take(tmp_path):
    (tmp_path / ".atk" / "adapters").mkdir(parents=True)
    (tmp_path / ".atk" / "adapters" / "runner.py").write_text("an earlier script")
    made = Project(
        id="project-1-abcd",
        workspace_path=str(tmp_path),
        created_at="2024-05-06T07:08:09+00:00",
        analysis_only=True,
        adapter="python",
        adapter_options={"call": "desk:answer"},
        adapter_sha256=digest(b"an earlier script"),
        run_config_digest="0" * 64,
    )
    assert "--events-file" not in agent_process(made, str(tmp_path), timeout_seconds=30).command


def test_what_it_raises_is_the_agents_error_with_its_trace(call):
    record = call("fails")
    assert record.execution.status == "agent_error"
    assert "KeyError: 'broken'" in record.stderr_tail


@pytest.mark.parametrize(
    ("code", "status"), [(0, "agent_error"), (None, "agent_error"), (3, "agent_error"), (75, "infra_error")]
)
def test_leaving_the_process_in_place_of_an_answer_is_never_a_success(call, code, status):
    record = call("leaves", [code])
    assert record.execution.status == status
    assert ("sys.exit" in record.stderr_tail) == (not code)


@pytest.mark.parametrize(("code", "status"), [(0, "agent_error"), (3, "agent_error"), (75, "infra_error")])
def test_ending_the_process_behind_pythons_back_is_never_a_success(call, code, status):
    record = call("vanishes", [code])
    assert (record.execution.status, record.output) == (status, "")
    assert ("before the callable came back" in record.stderr_tail) == (not code)


def test_becoming_another_program_is_never_a_success(call):
    record = call("becomes")
    assert record.execution.status == "agent_error"
    assert "exec" in record.stderr_tail


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_callable_that_dies_by_a_signal_ends_the_attempt_by_it(call, number):
    execution = call("dies", [int(number)]).execution
    assert (execution.status, execution.signal) == ("agent_error", number)


def test_what_a_callable_leaves_running_does_not_take_its_answer(call):
    record = call("leaves_one_running")
    assert (record.execution.status, record.output) == ("completed", "left")


def test_a_module_that_leaves_the_process_while_it_is_imported_is_the_agents_error(bench, call):
    with open(os.path.join(bench.target, "script.py"), "w") as file:
        file.write("import sys\nsys.exit()\n")
    record = call("answer", call="script:main")
    assert record.execution.status == "agent_error"
    assert "script:main or its module ended the process" in record.stderr_tail


def test_a_function_may_close_its_stdout_and_return_any_text(call):
    record = call("closes")
    assert (record.execution.status, record.output) == ("completed", "a\ufffd\ufffd\ufffdb")


def test_an_exception_named_as_infrastructure_says_nothing_about_the_agent(call):
    assert call("limited", infrastructure=["RateLimited"]).execution.status == "infra_error"


def test_a_module_that_cannot_be_imported_is_the_agents_error(call):
    assert call("absent").execution.status == "agent_error"


def test_a_changed_script_is_refused_and_a_deleted_one_is_written_again(tmp_path):
    pin = digest(process.runner_template())
    path = pinned_runner(str(tmp_path), pin)
    with open(path, "ab") as file:
        file.write(b"# mine\n")
    with pytest.raises(AdapterScriptChanged) as changed:
        pinned_runner(str(tmp_path), pin)
    assert changed.value.expected == pin
    os.unlink(path)
    with open(pinned_runner(str(tmp_path), pin), "rb") as file:
        assert file.read() == process.runner_template()


def test_a_pin_that_no_script_of_ours_has_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(AdapterScriptChanged):
        pinned_runner(str(tmp_path), "0" * 64)
    assert os.listdir(tmp_path) == []


def test_the_script_is_written_for_python_3_9():
    source = process.runner_template().decode()
    ast.parse(source, feature_version=(3, 9))
    imported = {a.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for a in node.names}
    assert imported <= {
        "argparse",
        "asyncio",
        "contextlib",
        "importlib",
        "inspect",
        "json",
        "os",
        "signal",
        "sys",
        "traceback",
    }
    assert runner_template.INFRA_ERROR == process.INFRA_ERROR
