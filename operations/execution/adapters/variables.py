"""The variables of an agent: from an allow-list and a file, their values never stored."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from operations.execution.plan import agent_environment
from storage.errors import AtkError, NextCall
from storage.schema.projects import Project

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"(?P<quote>['\"])(?P<text>.*?)(?<!\\)(?P=quote)\s*(?:#.*)?$")
_LARGEST_FILE_BYTES = 1 << 20


@dataclass(kw_only=True, eq=False)
class EnvFileUnusable(AtkError):
    """The file of variables is missing or has a line that is no assignment. No value is ever shown."""

    path: str
    problem: str

    message: ClassVar[str] = (
        "env_file {path} cannot be used: {problem}. Each line has to be NAME=value, a comment or empty. Correct the "
        "file, or name another one."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("initialize_project", supply={"env_file": "a file of NAME=value lines"}),
    )


@dataclass(kw_only=True, eq=False)
class VariablesMissing(AtkError):
    """Variables that the project declares and that nobody has set."""

    names: list[str]
    env_file: str

    message: ClassVar[str] = (
        "The agent is to be given {names}, but {env_file} and the environment of this server have none of that name. "
        "Set them where the server is started, or in the file, and start the run again."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"), NextCall("run_evaluation"))


def read_env_file(path: str, shown: str) -> dict[str, str]:
    r"""Returns the variables of a file of `NAME=value` lines.

    `export` before a name, comments, and quotes around a value are understood; inside double quotes `\n`, `\"` and
    `\\` are escapes. Nothing is expanded.

    Args:
        path: The file.
        shown: How an error names it.

    Raises:
        EnvFileUnusable: It cannot be read, or a line is no assignment.
    """
    try:
        # Without waiting, as opening a pipe would for a writer that may never come.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise EnvFileUnusable(path=shown, problem="it is not a regular file")
        with open(handle, encoding="utf-8-sig") as file:
            text = file.read(_LARGEST_FILE_BYTES + 1)
    except OSError as trouble:
        raise EnvFileUnusable(path=shown, problem=trouble.strerror or type(trouble).__name__) from None
    except UnicodeDecodeError:
        raise EnvFileUnusable(path=shown, problem="it is not UTF-8 text") from None
    except ValueError:
        raise EnvFileUnusable(path=shown, problem="its name holds a NUL character") from None
    if len(text) > _LARGEST_FILE_BYTES:
        raise EnvFileUnusable(path=shown, problem="it is larger than a file of variables can be")
    found: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        assigned = _LINE.fullmatch(line)
        if assigned is None or "\0" in line:
            raise EnvFileUnusable(path=shown, problem=f"line {number} is no assignment")
        found[assigned[1]] = _value(assigned[2])
    return found


def _value(given: str) -> str:
    quoted = _QUOTED.match(given)
    if quoted is None:
        return re.split(r"\s#", given, maxsplit=1)[0].rstrip()
    if quoted["quote"] == "'":
        return quoted["text"]
    escapes = {"n": "\n", "t": "\t"}
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[1]), quoted["text"])


def missing_variables(project: Project, values: Mapping[str, str], source: Mapping[str, str]) -> list[str]:
    """Returns the declared names that neither `values` nor `source` have."""
    declared = dict.fromkeys((*project.environment, *project.env_file_names))
    return [name for name in declared if name not in values and name not in source]


def missing_at_start(project: Project, root: str) -> list[str]:
    """Returns a warning that names the declared variables that nobody has set now; empty when all are set.

    Raises:
        EnvFileUnusable: The file cannot be used.
    """
    values = read_env_file(os.path.join(root, project.env_file), project.env_file) if project.env_file else {}
    missing = missing_variables(project, values, os.environ)
    return [f"environment: {', '.join(missing)} not set now; a run is refused until they are."] if missing else []


def variables(project: Project, root: str, *, source: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the whole environment that the project's agent is given.

    Args:
        project: Its configuration.
        root: The project's folder, where `env_file` is looked for.
        source: Where allowed variables are handed on from; this process's environment unless given.

    Raises:
        EnvFileUnusable: The file cannot be used.
        VariablesMissing: A declared variable is set nowhere.
    """
    given = os.environ if source is None else source
    values = read_env_file(os.path.join(root, project.env_file), project.env_file) if project.env_file else {}
    if missing := missing_variables(project, values, given):
        raise VariablesMissing(names=missing, env_file=project.env_file or "env_file (none is given)")
    return agent_environment(project.environment, values, source=given)
