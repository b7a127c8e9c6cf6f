"""`initialize_project`: make a folder a project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from operations import confirming
from operations.context import Context
from operations.definition import Effect, Example, Model, Reason, Response, WriteRequest, operation, steps
from operations.execution.adapters.options import BadAdapterOption
from operations.execution.adapters.process import pinned_runner, runner_template
from operations.execution.adapters.variables import EnvFileUnusable, read_env_file
from operations.execution.command import CommandNotAList, NulInCommand, UnknownPlaceholder
from operations.execution.configuring import BadConfiguration, check_configuration, check_preparation
from operations.execution.obstacles import obstacles_of
from operations.execution.permitting import ProbePermissionInvalid, permissions
from operations.execution.secret_rules import secrets_in
from operations.tuning.lifecycle import AnotherRoundActive, RuntimeConfigured, require_no_active, require_unconfigured
from storage.errors import AtkError, NextCall
from storage.frames import canonical, digest
from storage.git import Git
from storage.masking import PatternEngineMissing, RedactPatternUnusable, SecondLookMissing
from storage.project import AlreadyInitialized, LegacyStore, Project, ProjectNotInitialized
from storage.schema.base import ObjectId
from storage.schema.projects import (
    AdapterName,
    Component,
    EffectProtection,
    ExternalEffect,
    MetricSource,
)
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Round
from storage.transaction import ResourceBusy
from storage.worktree import Head, ready

TRY = NextCall("try_case", supply={"input": "one input, to see it run"})
KEPT_RULES = ("redact_keys", "redact_patterns", "second_look", "require_confirmation", "runtime_notes")
"""What configure_runtime takes over from the analysis-only project where it is not given anew."""
IMPORT = NextCall("import_evidence", {"dry_run": True}, {"source": "an export", "source_kind": "what it is"})
CORRECT = NextCall("initialize_project", {"revise": True}, {"arguments": "the whole configuration, corrected"})


@dataclass(kw_only=True, eq=False)
class RuntimeMissing(AtkError):
    """A runnable project was asked for without what it takes to run."""

    message = (
        "A runnable project needs {missing}. Give what is missing, or set analysis_only to true to only import and "
        "assess.{hint}"
    )
    next_calls = (NextCall("initialize_project", supply={"arguments": "with the missing fields"}),)

    missing: list[str]
    hint: str = ""


@dataclass(kw_only=True, eq=False)
class SecretInConfiguration(AtkError):
    """A field of the configuration holds a credential, and the configuration is stored and used as it is."""

    message = (
        "What looks like a credential stands in {places}, and a configuration is stored as it is given. Nothing was "
        "stored. Name the variable that holds it in environment or env_file instead, and let the agent read it there."
    )
    next_calls = (NextCall("initialize_project", supply={"arguments": "without credentials"}),)

    places: list[str]


class ComponentGiven(Model):
    component_id: Annotated[str, Field(min_length=1, max_length=64)]
    role: Annotated[str, Field(min_length=1, description="prompt, agent_code, tool, ...")]
    change_role: Annotated[Literal["variable", "fixed"], Field(description="May candidates change it?")]
    source_path: Annotated[str | None, Field(description="File or folder in the project.")] = None
    version_command: Annotated[list[str], Field(description="If fixed: prints its version.")] = []
    expected_version: Annotated[str | None, Field(description="What it has to print.")] = None
    version_timeout_seconds: Annotated[int, Field(ge=1, le=60)] = 5


class ProtectionGiven(Model):
    kind: Literal["test_environment", "stub", "approved_safeguard"]
    evidence_ref: Annotated[Reason, Field(description="Where that shows.")]


class EffectGiven(Model):
    name: Annotated[str, Field(min_length=1)]
    protection: Annotated[
        ProtectionGiven | None,
        WithJsonSchema({"type": "object"}),
        Field(
            description="Needed to run: {kind, evidence_ref: where that shows}; kind: test_environment, stub or "
            "approved_safeguard."
        ),
    ] = None


class MetricSourceGiven(Model):
    source: Annotated[str, Field(min_length=1, description="Not the agent.")]
    evidence_ref: Reason


class InitializeProjectRequest(WriteRequest):
    analysis_only: Annotated[bool, Field(description="Import and assess only; no Git, no runs.")] = False
    revise: Annotated[bool, Field(description="Replace the whole configuration.")] = False
    configure_runtime: Annotated[bool, Field(description="Make an analysis-only project runnable.")] = False
    command: Annotated[
        list[str],
        Field(
            description="How one attempt is started: a list, never a shell line. Placeholders: "
            "{input} {input_file} {attachments_file} {output_dir} {events_file} {case_id} {repeat_index}; {{ and }} "
            "are braces."
        ),
    ] = []
    python: Annotated[str | None, Field(description="The target's Python.")] = None
    working_directory: Annotated[str, Field(description="Where the agent starts, relative to the project.")] = "."
    environment: Annotated[
        list[str],
        Field(description="Variables to hand on."),
    ] = []
    components: Annotated[list[ComponentGiven], Field(description="The parts of the target.")] = []
    runtime_notes: Annotated[str, Field(description="For people.")] = ""
    external_effects: Annotated[
        list[EffectGiven] | None,
        Field(description="What it can act on outside; [] is nothing; needed to run."),
    ] = None
    allowed_paths: Annotated[
        list[str], Field(description="Files, folders, globs that candidates may change; `.` is all.")
    ] = []
    protected_paths: Annotated[list[str], Field(description="The same, that none may change.")] = []
    infrastructure_exit_codes: Annotated[
        list[int], Field(description="Exit codes that say nothing about the agent.")
    ] = []
    timeout_seconds: Annotated[float, Field(gt=0, le=86_400, description="Limit of one attempt.")] = 120
    metric_sources: Annotated[
        dict[Literal["cost", "tool_calls"], MetricSourceGiven],
        WithJsonSchema({"type": "object"}),
        Field(description="Of cost, tool_calls: a collector that gates may trust, as {source, evidence_ref}."),
    ] = {}
    redact_keys: Annotated[list[str], Field(description="Field names to mask.")] = []
    require_confirmation: Annotated[bool, Field(description="A person's word counts only when ATK asked them.")] = False
    redact_patterns: Annotated[list[str], Field(description="RE2 patterns to mask.")] = []
    second_look: Annotated[bool, Field(description="Have betterleaks look too.")] = False
    loading_verification: Annotated[dict[str, str], Field(description="By component, how loading is proved.")] = {}
    adapter: Annotated[AdapterName, Field(description="What makes an attempt a process.")] = "command"
    adapter_options: Annotated[
        dict[str, Any], Field(description="http: endpoint; codex-skill: skill_path; python: call; and more.")
    ] = {}
    env_file: Annotated[str | None, Field(description="NAME=value lines, never stored.")] = None
    case_environment: Annotated[dict[str, str], Field(description="Per attempt: templates.")] = {}
    case_working_directory: Annotated[str | None, Field(description="Per attempt: a template.")] = None
    replay_preparation: Annotated[
        dict[str, Any],
        Field(
            description="Before each batch: argv, timeout_seconds, service, ready_seconds, probe (prints the tree id "
            "that runs; {tree} is the Revision's)."
        ),
    ] = {}
    probe_permissions: Annotated[list[dict[str, Any]], Field(description="As create_round's.")] = []


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
        SecretInConfiguration,
        RedactPatternUnusable,
        PatternEngineMissing,
        SecondLookMissing,
        BadConfiguration,
        BadAdapterOption,
        EnvFileUnusable,
        ProbePermissionInvalid,
        CommandNotAList,
        NulInCommand,
        UnknownPlaceholder,
        AlreadyInitialized,
        LegacyStore,
        AnotherRoundActive,
        RuntimeConfigured,
        confirming.NotConfirmed,
        ResourceBusy,
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
        Example(
            "An agent behind HTTP that its own service command starts.",
            {
                "adapter": "http",
                "adapter_options": {"endpoint": "http://127.0.0.1:8000/answer", "output_field": "text"},
                "replay_preparation": {
                    "service": ["node", "server.js"],
                    "probe": ["curl", "-fsS", "http://127.0.0.1:8000/tree"],
                },
                "external_effects": [],
                "allowed_paths": ["prompt.txt"],
            },
        ),
    ),
)
def initialize_project(request: InitializeProjectRequest, context: Context) -> InitializeProjectResponse:
    """Make a folder an ATK project: say how its agent is started and what may be changed.

    A runnable project needs Git, a command and an explicit list of external effects; an analysis-only one needs
    nothing. The command is not run; try_case does that.

    Creates `.atk/` whole or not at all. With `revise` an existing project gets a new configuration. Existing
    `.atk/` folders of other versions are refused untouched.
    """
    imports_only = request.analysis_only and not request.command and request.adapter == "command"
    record = _record(request, context)
    if places := secrets_in(record):
        raise SecretInConfiguration(places=places)
    warnings = []
    if not imports_only:
        _require_runtime(request)
        warnings = check_configuration(record, context.root)
    head: Head | None = None
    if not request.analysis_only:
        git = Git(context.root)
        try:
            head = ready(git)
        finally:
            git.close()
    known = _known(request, context)
    if known is not None:
        kept = KEPT_RULES if request.configure_runtime else {"require_confirmation"} - request.model_fields_set
        rules = {name: getattr(record, name) or getattr(known, name) for name in kept}
        record = record.model_copy(update={"id": known.id, "created_at": known.created_at, **rules})
    obstacles = [] if imports_only else obstacles_of(record)
    response = InitializeProjectResponse(
        message=_message(record, obstacles, revised=known is not None),
        warnings=warnings,
        project_id=record.id,
        analysis_only=request.analysis_only,
        run_config_digest=record.run_config_digest,
        head=head.commit if head else None,
        branch=head.branch if head else None,
        next=steps(
            IMPORT if imports_only else CORRECT if obstacles else TRY,
            NextCall("store_dataset", supply={"source": "a CSV or JSONL file of Cases"}),
        ),
    )
    if known is not None:
        response = _revised(context, record, response)
    else:
        _, number = Project.create(context.root, context.call, record, response.model_dump(mode="json"))
        response = response.model_copy(update={"journal_record": number})
    if record.adapter_sha256:
        pinned_runner(context.root, record.adapter_sha256)
    return response


def _known(request: InitializeProjectRequest, context: Context) -> ProjectRecord | None:
    """The project as it is configured now, where that is to be changed; None where there is none yet."""
    if not (request.revise or request.configure_runtime):
        return None
    try:
        known = context.project.state().all(ProjectRecord)[0]
    except ProjectNotInitialized:
        return None
    if request.configure_runtime and not request.revise:
        require_unconfigured(known)
    return known


def _revised(context: Context, record: ProjectRecord, answer: InitializeProjectResponse) -> InitializeProjectResponse:
    """Stores the configuration as the project's present one; what ran under an earlier one keeps that one's digest."""
    with context.transaction() as tx:
        require_no_active(tx.state.all(Round))
        tx.require_free("worktree")
        confirming.require_word(tx.state.all(ProjectRecord)[0], record, context, tx)
        opened = [r.id for r in tx.state.all(Round) if r.status == "analysis_only"]
        stale = [
            f"{round_id} was opened under the earlier configuration and is not frozen: where the configuration now "
            "names other files, end it with finish_round and action abandon, and create another."
            for round_id in opened[-3:]
        ]
        tx.put(record)
        return tx.commit(answer.model_copy(update={"warnings": [*answer.warnings, *stale]}))


def _message(record: ProjectRecord, obstacles: Sequence[str], *, revised: bool) -> str:
    done = "has a new configuration" if revised else "is made"
    if obstacles:
        again = "Correct that with initialize_project and revise: true."
        return f"Project {record.id} {done}, but cannot run yet: {'; '.join(obstacles)}. {again}"
    purpose = "for import and assessment" if record.analysis_only else "to run"
    lead = f"Project {record.id} has a new configuration and is" if revised else f"Project {record.id} is"
    return f"{lead} ready {purpose}."


def _require_runtime(request: InitializeProjectRequest) -> None:
    missing = [
        name
        for name, given in (
            ("command", request.command or request.adapter != "command"),
            ("external_effects", request.external_effects is not None),
            ("allowed_paths", request.allowed_paths or request.analysis_only),
        )
        if not given
    ]
    if missing:
        hint = " external_effects has to be said even when there are none: []." if "external_effects" in missing else ""
        raise RuntimeMissing(missing=missing, hint=hint)


def _record(request: InitializeProjectRequest, context: Context) -> ProjectRecord:
    components = tuple(Component.model_validate(c.model_dump()) for c in request.components)
    preparation = check_preparation(request.replay_preparation)
    values = read_env_file(os.path.join(context.root, request.env_file), request.env_file) if request.env_file else {}
    pin = digest(runner_template()) if request.adapter == "python" else None
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
        "adapter": request.adapter,
        "adapter_options": request.adapter_options,
        "adapter_sha256": pin,
        "env_file": sorted(values),
        "case_environment": request.case_environment,
        "case_working_directory": request.case_working_directory,
        "replay_preparation": preparation.model_dump(mode="json") if preparation else None,
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
        require_confirmation=request.require_confirmation,
        redact_patterns=tuple(request.redact_patterns),
        second_look=request.second_look,
        loading_verification=dict(request.loading_verification),
        timeout_seconds=request.timeout_seconds,
        run_config_digest=digest(canonical(shape)),
        adapter=request.adapter,
        adapter_options=request.adapter_options,
        adapter_sha256=pin,
        env_file=request.env_file,
        env_file_names=tuple(sorted(values)),
        case_environment=dict(request.case_environment),
        case_working_directory=request.case_working_directory,
        replay_preparation=preparation,
        probe_permissions=permissions(
            request.probe_permissions, context.root, python=request.python, step="initialize_project"
        ),
    )
