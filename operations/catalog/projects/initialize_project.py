"""`initialize_project`: make a folder a project."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Model, Response, WriteRequest, operation, steps
from operations.execution.command import CommandNotAList, NulInCommand, UnknownPlaceholder, check_template
from storage.errors import AtkError, NextCall
from storage.frames import canonical, digest
from storage.git import Git
from storage.project import AlreadyInitialized, LegacyStore, Project
from storage.schema.base import ObjectId
from storage.schema.projects import Component, EffectProtection, ExternalEffect, MetricSource
from storage.schema.projects import Project as ProjectRecord
from storage.worktree import check_patterns, ready


@dataclass(kw_only=True, eq=False)
class RuntimeMissing(AtkError):
    """A runnable project was asked for without what it takes to run."""

    message = (
        "A runnable project needs {missing}. Give them, or set analysis_only to true to only import and assess. "
        "external_effects has to be said even when there are none: []."
    )
    next_calls = (NextCall("initialize_project", supply={"arguments": "with the missing fields"}),)

    missing: list[str]


@dataclass(kw_only=True, eq=False)
class BadConfiguration(AtkError):
    """One field of the configuration cannot be used."""

    message = "{field} {problem}; given: {given}."
    next_calls = (NextCall("initialize_project", supply={"arguments": "with {field} corrected"}),)

    field: str
    given: str
    problem: str


class ComponentGiven(Model):
    component_id: Annotated[str, Field(min_length=1, max_length=64)]
    role: Annotated[str, Field(min_length=1, description="Such as prompt, agent_code, tool, config.")]
    change_role: Annotated[Literal["variable", "fixed"], Field(description="Whether candidates may change it.")]
    source_path: Annotated[str | None, Field(description="Its file or folder, relative to the project.")] = None


class ProtectionGiven(Model):
    kind: Literal["test_environment", "stub", "approved_safeguard"]
    evidence_ref: Annotated[str, Field(min_length=1, description="Where one can see that it holds.")]


class EffectGiven(Model):
    name: Annotated[str, Field(min_length=1)]
    protection: Annotated[ProtectionGiven | None, Field(description="Needed before any run.")] = None


class MetricSourceGiven(Model):
    source: Annotated[str, Field(min_length=1, description="An independent collector, not the agent itself.")]
    evidence_ref: Annotated[str, Field(min_length=1)]


class InitializeProjectRequest(WriteRequest):
    analysis_only: Annotated[bool, Field(description="True: import and assess only; no Git, no runs.")] = False
    command: Annotated[
        list[str],
        Field(
            description="How one attempt of the agent is started, as a list, never a shell line. Placeholders: "
            "{input} {input_file} {attachments_file} {output_dir} {case_id} {repeat_index}; {{ and }} are braces."
        ),
    ] = []
    python: Annotated[str | None, Field(description="The target's Python, recorded as part of what ran.")] = None
    working_directory: Annotated[str, Field(description="Where the agent starts, relative to the project.")] = "."
    environment: Annotated[
        list[str],
        Field(description="Names of variables that the agent is given besides PATH, HOME, LANG and the like."),
    ] = []
    components: Annotated[list[ComponentGiven], Field(description="The parts of the target.")] = []
    runtime_notes: Annotated[str, Field(description="What a person has to know to run the agent.")] = ""
    external_effects: Annotated[
        list[EffectGiven] | None,
        Field(description="What the agent can act on outside; [] when nothing. Must be given for a runnable project."),
    ] = None
    allowed_paths: Annotated[
        list[str], Field(description="Files, folders or globs that candidates may change; `.` is everything.")
    ] = []
    protected_paths: Annotated[
        list[str], Field(description="Files, folders or globs that no candidate may change.")
    ] = []
    infrastructure_exit_codes: Annotated[
        list[int], Field(description="Exit codes 1 to 255 that say nothing about the agent.")
    ] = []
    timeout_seconds: Annotated[float, Field(gt=0, le=86_400, description="Limit of one attempt.")] = 120
    metric_sources: Annotated[
        dict[Literal["cost", "tool_calls"], MetricSourceGiven], Field(description="Collectors that gates may trust.")
    ] = {}
    redact_keys: Annotated[
        list[str], Field(description="Field names that are always masked, besides the known ones.")
    ] = []
    loading_verification: Annotated[dict[str, str], Field(description="How loading is proved, by component.")] = {}


class InitializeProjectResponse(Response):
    project_id: ObjectId
    analysis_only: bool
    run_config_digest: str
    head: Annotated[str | None, Field(description="The commit at which the project was initialized.")] = None
    branch: str | None = None


@operation(
    effect=Effect.STORE,
    raises=(
        RuntimeMissing,
        BadConfiguration,
        CommandNotAList,
        NulInCommand,
        UnknownPlaceholder,
        AlreadyInitialized,
        LegacyStore,
    ),
    examples=(
        Example(
            "A Python agent whose prompt may change and whose code may not.",
            {
                "command": ["python3", "agent.py", "{input_file}"],
                "components": [
                    {"component_id": "prompt", "role": "prompt", "change_role": "variable", "source_path": "prompt.txt"}
                ],
                "external_effects": [],
                "allowed_paths": ["prompt.txt"],
                "protected_paths": ["agent.py"],
            },
        ),
    ),
)
def initialize_project(request: InitializeProjectRequest, context: Context) -> InitializeProjectResponse:
    """Make a folder an ATK project: say how its agent is started and what may be changed.

    Creates `.atk/` whole or not at all. A runnable project needs Git, a command and an explicit list of external
    effects; an analysis-only one needs nothing. The command is checked, not run. Existing `.atk/` folders of other
    versions are refused untouched.
    """
    warnings = [] if request.analysis_only and not request.command else _check_runtime(request)
    head = branch = None
    if not request.analysis_only:
        git = Git(context.root)
        try:
            at = ready(git)
            head, branch = at.commit, at.branch
        finally:
            git.close()
    record = _record(request, context)
    response = InitializeProjectResponse(
        message=f"Project {record.id} is ready"
        + (" for import and assessment." if request.analysis_only else " to run."),
        warnings=warnings,
        project_id=record.id,
        analysis_only=request.analysis_only,
        run_config_digest=record.run_config_digest,
        head=head,
        branch=branch,
        next=steps(
            NextCall("store_dataset", supply={"source": "a CSV or JSONL file of Cases"}), NextCall("get_status")
        ),
    )
    _, number = Project.create(context.root, context.call, record, response.model_dump(mode="json"))
    return response.model_copy(update={"journal_record": number})


def _check_runtime(request: InitializeProjectRequest) -> list[str]:
    """Refuses a configuration that could not run. Returns warnings."""
    missing = [
        name
        for name, given in (
            ("command", request.command),
            ("external_effects", request.external_effects is not None),
            ("allowed_paths", request.allowed_paths or request.analysis_only),
        )
        if not given
    ]
    if missing:
        raise RuntimeMissing(missing=missing)
    warnings = list(check_template(request.command))
    check_patterns([*request.allowed_paths, *request.protected_paths])
    codes = request.infrastructure_exit_codes
    if any(not 1 <= code <= 255 for code in codes) or len(set(codes)) != len(codes):  # noqa: PLR2004 - exit codes
        raise BadConfiguration(
            field="infrastructure_exit_codes", given=str(codes), problem="has to list different numbers from 1 to 255"
        )
    ids = [c.component_id for c in request.components]
    if len(set(ids)) != len(ids):
        raise BadConfiguration(field="components", given=str(ids), problem="has to name each component_id once")
    for name in request.environment:
        if not name.isidentifier() or not name.isascii():
            raise BadConfiguration(
                field="environment", given=name, problem="has to list names of variables, not values"
            )
        if name.startswith(("LD_", "DYLD_")):
            raise BadConfiguration(field="environment", given=name, problem="may not name variables of the loader")
    program = request.command[0]
    if "{" not in program and "/" not in program and shutil.which(program) is None:
        warnings.append(f"command: {program} is not on this machine's PATH now.")
    warnings += [
        f"external_effects: {e.name} has no protection yet, and no run starts before it has."
        for e in request.external_effects or []
        if e.protection is None
    ]
    return warnings


def _record(request: InitializeProjectRequest, context: Context) -> ProjectRecord:
    components = tuple(Component(**c.model_dump()) for c in request.components)
    effects = tuple(
        ExternalEffect(name=e.name, protection=EffectProtection(**e.protection.model_dump()) if e.protection else None)
        for e in request.external_effects or []
    )
    shape: dict[str, Any] = {
        "command": request.command,
        "python": request.python,
        "working_directory": request.working_directory,
        "environment": request.environment,
        "components": [c.model_dump() for c in components],
        "external_effects": [e.model_dump() for e in effects],
        "infrastructure_exit_codes": sorted(request.infrastructure_exit_codes),
        "metric_sources": {k: v.model_dump() for k, v in request.metric_sources.items()},
    }
    identity = digest(canonical({**shape, "at": context.timestamp, "root": context.root}))
    return ProjectRecord(
        id=f"project-1-{identity[:4]}",
        workspace_path=context.root,
        created_at=context.timestamp,
        analysis_only=request.analysis_only,
        command=tuple(request.command),
        python=request.python,
        working_directory=request.working_directory,
        environment=tuple(request.environment),
        components=components,
        runtime_notes=request.runtime_notes,
        external_effects=effects,
        allowed_paths=tuple(request.allowed_paths),
        protected_paths=tuple(request.protected_paths),
        infrastructure_exit_codes=tuple(sorted(request.infrastructure_exit_codes)),
        metric_sources={k: MetricSource(**v.model_dump()) for k, v in request.metric_sources.items()},
        redact_keys=tuple(request.redact_keys),
        loading_verification=dict(request.loading_verification),
        timeout_seconds=request.timeout_seconds,
        run_config_digest=digest(canonical(shape)),
    )
