"""What the guardian starts for one attempt: each adapter as a command template, an environment and a folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from operations.execution.adapters.options import PythonOptions, check_options
from operations.execution.adapters.variables import variables
from storage.errors import AtkError, NextCall
from storage.frames import digest
from storage.schema.projects import Project

INFRA_ERROR = 75
"""The exit code by which ATK's own programs say that the attempt says nothing about the agent (EX_TEMPFAIL)."""
OPTIONS = "ATK_ADAPTER_OPTIONS"
RUNNER = ".atk/adapters/runner.py"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_ATTACHMENTS = ("--attachments-file", "{attachments_file}")
_CASE = ("--case-id", "{case_id}", "--repeat-index", "{repeat_index}", *_ATTACHMENTS)
_FILES = ("--input-file", "{input_file}", "--output-dir", "{output_dir}")
_EVENTS = ("--events-file", "{events_file}")

_IN_FOLDER = """\
case /$1/ in */../*) echo "The Case's working folder $1 leaves the target." >&2; exit 75;; esac
cd "$1" || exit 75
shift; n=$1; shift
while [ "$n" -gt 0 ]; do export "$1"; shift; n=$((n - 1)); done
command -v "$1" >/dev/null || exit 75
exec "$@"
"""
"""POSIX sh that enters the Case's folder and sets its variables before it becomes the agent.

Case ids are the user's, so one with `..` in it may not lead out of the target. What fails here is not the agent's.
"""


@dataclass(kw_only=True, eq=False)
class AdapterScriptChanged(AtkError):
    """The target-side script is not the one that the project was initialized with."""

    path: str
    expected: str
    found: str

    message: ClassVar[str] = (
        "{path} has the digest {found}, but the project is pinned to {expected}, so attempts would not be comparable. "
        "Put the script back as it was (delete it to have ATK write its own again)."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"),)


@dataclass(frozen=True)
class AgentProcess:
    """How an attempt is started: what a RunPlan takes from the project."""

    command: tuple[str, ...]
    """A template: see `operations.execution.command`."""
    environment: dict[str, str]
    working_directory: str
    infrastructure_exit_codes: tuple[int, ...]


def agent_process(  # noqa: PLR0913 - the configuration and what an attempt depends on besides it
    project: Project,
    root: str,
    *,
    timeout_seconds: float,
    worktree: str | None = None,
    runner: str | None = None,
    source: Mapping[str, str] | None = None,
) -> AgentProcess:
    """Returns how attempts of the project are started.

    Args:
        project: Its configuration.
        root: The project's folder: where `.atk/` and `env_file` are.
        timeout_seconds: The limit of one attempt, which the HTTP client has to know to wait no longer.
        worktree: Where the Revision's content is; `root` unless it is elsewhere.
        runner: A copy of the `python` adapter's script to start in place of the pinned one.
        source: Where allowed variables are handed on from; this process's environment unless given.

    Raises:
        AdapterScriptChanged: `.atk/adapters/runner.py` is another one than the pinned.
        BadAdapterOption: A stored option is no longer understood.
        EnvFileUnusable: The file of variables cannot be used.
        VariablesMissing: A declared variable is set nowhere.
    """
    folder = os.path.normpath(os.path.join(worktree or root, project.working_directory))
    environment = variables(project, root, source=source)
    options = check_options(project.adapter, project.adapter_options)
    plain = options.model_dump(mode="json")
    codes = tuple(sorted({*project.infrastructure_exit_codes, INFRA_ERROR}))
    files = (*_FILES, *_EVENTS)
    if project.adapter == "http":
        plain["timeout_seconds"] = timeout_seconds
        made = AgentProcess(_own("http_client.py", *files, *_CASE), _told(environment, plain), folder, codes)
    elif project.adapter == "codex-skill":
        made = AgentProcess(_own("codex_skill.py", *files, *_ATTACHMENTS), _told(environment, plain), folder, codes)
    elif isinstance(options, PythonOptions):
        script = runner or pinned_runner(root, str(project.adapter_sha256))
        events = _EVENTS if project.adapter_sha256 == digest(runner_template()) else ()  # earlier scripts take none
        made = AgentProcess((*_python(project.python, script, options), *events), environment, folder, codes)
    else:
        made = AgentProcess(project.command, environment, folder, project.infrastructure_exit_codes)
    if project.case_environment or project.case_working_directory:
        return in_case_folder(made, project.case_working_directory, project.case_environment)
    return made


def in_case_folder(process: AgentProcess, folder: str | None, case_environment: Mapping[str, str]) -> AgentProcess:
    """Returns a process that enters a folder and sets variables, both templates, before it becomes the agent."""
    assigned = [f"{name}={value}" for name, value in case_environment.items()]
    start = ("/bin/sh", "-c", _IN_FOLDER, "sh", folder or ".", str(len(assigned)), *assigned)
    codes = tuple(sorted({*process.infrastructure_exit_codes, INFRA_ERROR}))
    return replace(process, command=(*start, *process.command), infrastructure_exit_codes=codes)


def runner_template() -> bytes:
    """Returns the script that the `python` adapter starts, as it is written at initialization."""
    with open(os.path.join(_FOLDER, "runner_template.py"), "rb") as file:
        return file.read()


def pinned_runner(root: str, sha256: str) -> str:
    """Returns the path of the project's runner script, which is written first when it is not there.

    Initialization can die before it writes the script, and a person may delete it; the pin says what it has to be.

    Raises:
        AdapterScriptChanged: It is there, or would be written, with another digest.
    """
    path = os.path.join(root, RUNNER)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        template = runner_template()
        if digest(template) != sha256:
            raise AdapterScriptChanged(path=RUNNER, expected=sha256, found=digest(template)) from None
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        fresh = f"{path}.{os.getpid()}"
        with open(
            os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb"
        ) as f:
            f.write(template)
        os.replace(fresh, path)
        return path
    with open(handle, "rb") as file:
        found = digest(file.read())
    if found != sha256:
        raise AdapterScriptChanged(path=RUNNER, expected=sha256, found=found)
    return path


def _own(program: str, *arguments: str) -> tuple[str, ...]:
    """One of ATK's own programs, isolated, so that nothing of the target stands in for what it imports."""
    return (sys.executable, "-I", _literal(os.path.join(_FOLDER, program)), *arguments)


def _python(python: str | None, script: str, options: PythonOptions) -> tuple[str, ...]:
    given = [argument for name in options.infrastructure for argument in ("--infrastructure", name)]
    given += [argument for path in options.path for argument in ("--path", path)]
    literal = [_literal(argument) for argument in (python or sys.executable, script, "--call", options.call, *given)]
    return (*literal, *_FILES, *_CASE)


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}") if "{" in text else text


def _told(environment: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    return {**environment, OPTIONS: json.dumps(options)}
