"""What a supervisor needs to know to run a batch, as one file that the starting process writes and it reads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field, ValidationError

from operations import mistakes
from storage.errors import AtkError, NextCall
from storage.schema.base import ObjectId, Value
from storage.schema.evidence import Slot

MIB = 1024 * 1024
PLAN_FILE = "plan.json"
STOP_FILE = "stop"
"""A file of this name in the work folder asks the supervisor to stop."""
SUPERVISOR_LOG = "supervisor.log"
ATTEMPTS_LOG = "attempts.log"

DEFAULT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME")
"""The variables that an agent gets without being named: what most programs need and nothing that is secret."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Positive = Annotated[int, Field(ge=1)]
AbsolutePath = Annotated[str, Field(pattern=r"^/")]


class RunPlan(Value):
    """One batch to run. All paths are absolute; the supervisor writes below the two folders and nowhere else."""

    batch_id: ObjectId
    evidence_folder: AbsolutePath
    """Where `attempts.log` is: part of the store."""
    work_folder: AbsolutePath
    """Where the agents' own files go: outside the store."""
    working_directory: AbsolutePath
    attachments_folder: AbsolutePath | None = None
    """Where relative paths of attachments begin; the working directory unless given."""
    kept_attachments: AbsolutePath | None = None
    """The dataset's folder of kept bytes, of which an attempt whose command asks for attachments gets copies."""
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    """A template: see `operations.execution.command`."""
    environment: dict[str, str]
    """All that the agent gets: see `agent_environment`."""
    timeout_seconds: Seconds
    batch_timeout_seconds: Seconds | None = None
    grace_seconds: Annotated[float, Field(ge=0, le=60)] = 2.0
    """How long an agent may take to end after SIGTERM before it is killed."""
    answer_seconds: Annotated[float, Field(gt=0)] = 60.0
    """How long after that its guardian may take to answer before it is killed itself, and the agent with it."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 1
    max_output_bytes: Positive = 16 * MIB
    """The largest file that an agent's process can write, stdout and stderr among them (RLIMIT_FSIZE)."""
    stored_output_bytes: Positive = MIB
    """How much of stdout becomes part of the Record."""
    infrastructure_exit_codes: tuple[Annotated[int, Field(ge=1, le=255)], ...] = ()
    """Exit codes by which the agent says that it could not work for reasons that are not its own."""
    slots: tuple[Slot, ...]
    """What to attempt, in this order. Slots that `attempts.log` already confirms are not attempted again."""
    rerun_unknown_ids: tuple[ObjectId, ...] = ()
    """Records that were started without a known end and that the user allowed to be started again."""
    cases_path: AbsolutePath
    """A JSONL file; of each line's Case, `id`, `input` and `attachments` are read and nothing else."""
    seal_key_path: AbsolutePath | None = None
    """The project's holdout key, where a Case of the run is sealed: it is opened for its attempt alone."""
    metric_sources: tuple[str, ...] = ()
    """Collectors that the project declares: of a holdout Case's metrics, only these may be named in the clear."""
    component_ids: tuple[str, ...] = ()
    """Declared components: of what a holdout Case's attempt loaded, only these are told in the clear."""
    mask_key_path: AbsolutePath
    redact_keys: tuple[str, ...] = ()
    redact_patterns: tuple[str, ...] = ()
    second_look: bool = False
    stop_after_infra_failures: Positive | None = None
    """Start nothing more after so many infrastructure failures in a row; what runs may end."""
    spend_metric: str | None = None
    """A metric of the Records whose sum over this run's attempts is bounded; what does not report it costs nothing."""
    spend_limit: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0
    """Start nothing more once the sum has come to this; what runs may end."""

    @property
    def attempts_path(self) -> str:
        """Where the run's `attempts.log` is."""
        return os.path.join(self.evidence_folder, ATTEMPTS_LOG)


@dataclass(kw_only=True, eq=False)
class PlanUnreadable(AtkError):
    """A plan file that is missing or is not a plan."""

    path: str
    reason: str

    message: ClassVar[str] = "The run's plan at {path} cannot be used: {reason}. Start the evaluation again."
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"), NextCall("run_evaluation"))


@dataclass(kw_only=True, eq=False)
class InvalidEnvironmentName(AtkError):
    """A name that no environment variable can have."""

    name: str

    message: ClassVar[str] = (
        "'{name}' cannot be the name of an environment variable for the agent: a name is not empty and has neither "
        "'=' nor a NUL. Correct the list of variables."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("initialize_project"),)


def agent_environment(
    names: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
    *,
    source: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Returns the whole environment of an agent: an allow-list of what this process has, and fixed additions.

    Args:
        names: Further variables to hand on, beside `DEFAULT_VARIABLES`. One that is not set is left out.
        extra: Variables with their values; they win over those handed on.
        source: Where to hand on from; this process's environment unless given.

    Raises:
        InvalidEnvironmentName: A name is empty or contains `=` or a NUL.
    """
    given = os.environ if source is None else source
    wanted = (*DEFAULT_VARIABLES, *names)
    handed = {name: given[name] for name in wanted if name in given}
    environment = {**handed, "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})}
    for name in (*wanted, *environment):
        if not name or "=" in name or "\0" in name:
            raise InvalidEnvironmentName(name=name)
    return environment


def write_plan(plan: RunPlan) -> str:
    """Writes `plan` into its work folder, for its owner's eyes, and returns the path.

    A plan of an earlier run of the same batch is replaced and its request to stop forgotten, so that a batch can be
    continued.

    Raises:
        OSError: The work folder is missing or cannot be written.
    """
    path = os.path.join(plan.work_folder, PLAN_FILE)
    fresh = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(plan.model_dump_json())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(plan.work_folder, STOP_FILE))
    os.replace(fresh, path)
    return path


def read_plan(path: str) -> RunPlan:
    """Returns the plan at `path`.

    Raises:
        PlanUnreadable: The file is missing, unreadable or not a plan.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return RunPlan.model_validate_json(file.read())
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise PlanUnreadable(path=path, reason=mistakes.sentence(where, first)) from invalid
    except (OSError, UnicodeDecodeError) as unreadable:
        raise PlanUnreadable(path=path, reason=str(unreadable)) from unreadable
