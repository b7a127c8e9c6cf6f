"""What may be said to each adapter: its options as types, and the refusals that name a wrong one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator

from operations import mistakes
from storage.errors import AtkError, NextCall
from storage.schema.base import Value
from storage.schema.projects import AdapterName

_CONFIGURE: tuple[NextCall, ...] = (
    NextCall("initialize_project", supply={"adapter_options": "the corrected options of the adapter"}),
)
Outcome = Literal["completed", "agent_error", "infra_error"]
Text = Annotated[str, Field(min_length=1)]


@dataclass(kw_only=True, eq=False)
class BadAdapterOption(AtkError):
    """An option of an adapter that is missing, unknown or has a value it cannot have."""

    adapter: str
    option: str
    problem: str
    allowed: list[str]

    message: ClassVar[str] = (
        "adapter_options of the adapter {adapter}: {option} {problem}. Its options are: {allowed}. Correct it."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = _CONFIGURE


class CommandOptions(Value):
    """The `command` adapter has no options: the project's command says everything."""


class HttpOptions(Value):
    """An agent behind an HTTP endpoint. `${NAME}` in a URL or header stands for a variable that the agent is given."""

    endpoint: Text
    """Where each Case is posted as JSON: attempt_id, case_id, repeat_index, input, attachments."""
    method: Literal["POST", "PUT"] = "POST"
    headers: dict[str, str] = {}
    body: Literal["case", "input"] = "case"
    """`input` posts the Case's input alone."""
    output_field: str | None = None
    """The part of the JSON answer that is the output, as a dotted path; None: the whole body."""
    loading_field: str = "loading"
    """Where a JSON answer may carry what an agent writes into loading.json; likewise the next two."""
    metrics_field: str = "metrics"
    events_field: str = "events"
    statuses: dict[str, Outcome] = {}
    """What a status such as `502` or `5xx` says, where it differs from the usual."""
    ready_url: str | None = None
    """Answers 2xx when the endpoint is ready; asked before each attempt."""
    ready_seconds: Annotated[float, Field(gt=0, le=3_600)] = 30
    cancel_url: str | None = None
    """Told by a POST with attempt_id when an attempt is ended early; `{attempt_id}` in it is replaced."""
    max_response_bytes: Annotated[int, Field(ge=1, le=1 << 30)] = 16 << 20

    @field_validator("endpoint", "ready_url", "cancel_url")
    @classmethod
    def _is_http(cls, url: str | None) -> str | None:
        if url is not None and (urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).netloc):
            raise ValueError("has to be a URL that begins with http:// or https:// and names a host")
        if url is not None and "${" not in url:
            urlsplit(url).port  # noqa: B018 - a port that cannot be is told by reading it
        return url

    @field_validator("statuses")
    @classmethod
    def _are_statuses(cls, given: dict[str, Outcome]) -> dict[str, Outcome]:
        if wrong := [name for name in given if not re.fullmatch(r"[1-5](\d\d|xx)", name)]:
            raise ValueError(f"has {wrong[0]!r}, which is neither a status such as 502 nor a class such as 5xx")
        return given


class CodexSkillOptions(Value):
    """A business Skill run by the Codex CLI in a home of its own for each attempt."""

    skill_path: Text
    """The Skill's folder, relative to the working folder. It is copied into the attempt's CODEX_HOME."""
    skill_name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")] = ""
    """As the front matter of SKILL.md has it; by default the folder's name."""
    component_id: str | None = None
    """The component that the loading evidence speaks of; by default the Skill's name."""
    codex: Text = "codex"
    """The Codex program."""
    model: str | None = None
    config: dict[str, Any] = {}
    """Settings of `config.toml`, such as model_provider and model_providers."""
    prompt: Text = "${skill}\n\n{input}"
    """`${skill}` becomes `$` and the Skill's name, which is how Codex is told to use it. `{attachments}` becomes the
    paths of the Case's attachments, a line each; where the prompt does not have it, they follow at its end."""
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "read-only"
    arguments: list[str] = []
    """Further arguments of `codex exec`."""
    auth_file: str | None = None
    """A Codex login to link into the attempt's home; never copied. Not needed for a provider with an env_key."""

    @field_validator("prompt")
    @classmethod
    def _asks_for_the_input(cls, prompt: str) -> str:
        if "{input}" not in prompt:
            raise ValueError("has to contain {input}, or every Case would be asked alike")
        return prompt


class PythonOptions(Value):
    """A Python callable of the target, called by `.atk/adapters/runner.py` on the project's `python`."""

    call: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
    """`module:function`. It is called with the Case's input, and by name with case_id, repeat_index, attachments,
    output_dir and events_file where it has such parameters. It may be async."""
    path: list[str] = []
    """Folders, relative to the working folder, that come first in sys.path; the working folder is always there."""
    infrastructure: list[str] = []
    """Names of exceptions, such as `TimeoutError`, that say nothing about the agent."""


Options = CommandOptions | HttpOptions | CodexSkillOptions | PythonOptions
_MODELS: dict[str, type[Options]] = {
    "command": CommandOptions,
    "http": HttpOptions,
    "codex-skill": CodexSkillOptions,
    "python": PythonOptions,
}


def check_options(adapter: AdapterName, given: Mapping[str, Any]) -> Options:
    """Returns the options of an adapter with their defaults.

    Raises:
        BadAdapterOption: One is missing, unknown, or has a value it cannot have.
    """
    model = _MODELS[adapter]
    allowed = list(model.model_fields)
    try:
        options = model.model_validate(dict(given))
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        option = ".".join(str(part) for part in first["loc"])
        problem = _problem(first, option, allowed)
        raise BadAdapterOption(adapter=adapter, option=option, problem=problem, allowed=allowed) from None
    if isinstance(options, CodexSkillOptions) and not options.skill_name:
        name = options.skill_path.rstrip("/").rpartition("/")[2]
        return check_options(adapter, {**given, "skill_name": name})
    return options


def _problem(mistake: Mapping[str, Any], option: str, allowed: list[str]) -> str:
    if mistake["type"] == "extra_forbidden":
        closest = difflib.get_close_matches(option, allowed, n=1, cutoff=0.0)
        return "does not exist" + (f"; the closest is {closest[0]}" if closest else "")
    return mistakes.said(mistake)
