"""A project: how its agent is started and what may be changed."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from storage.schema.base import Digest, Record, Value
from storage.schema.probes import ProbePermission

AdapterName = Literal["command", "http", "codex-skill", "python"]
"""What turns one attempt into a process: see operations.execution.adapters."""

Protection = Literal["test_environment", "stub", "approved_safeguard"]


class EffectProtection(Value):
    """What keeps a run from acting on the real world through one declared effect."""

    kind: Protection
    evidence_ref: str


class ExternalEffect(Value):
    """Something outside the project that the agent can act on."""

    name: str
    protection: EffectProtection | None = None


class Component(Value):
    """One part of the target that a change may or may not touch."""

    component_id: str
    role: str
    change_role: Literal["variable", "fixed"]
    source_path: str | None = None
    version_command: tuple[str, ...] = ()
    """Prints the version of a fixed component that is no file of the target, such as a model or a service."""
    expected_version: str | None = None
    """What `version_command` has to print; None where any version will do as long as it stays."""
    version_timeout_seconds: Annotated[int, Field(ge=1, le=60)] = 5


class Preparation(Value):
    """What makes the runtime follow the worktree before each batch, and what proves that it did.

    In each argument `{tree}` and `{commit}` stand for the Revision's; the variables ATK_TREE and ATK_COMMIT say it too.
    """

    mode: Literal["stateless", "command"] = "stateless"
    argv: tuple[str, ...] = ()
    """Builds or restarts; it has to end with exit code 0. What it leaves running lives until the batch has ended."""
    timeout_seconds: Annotated[float, Field(gt=0, le=86_400)] = 120
    service: tuple[str, ...] = ()
    """A program that serves while the batch runs: started before it and ended after it."""
    probe: tuple[str, ...] = ()
    """Prints the tree id of the Revision that the runtime has really loaded."""
    ready_seconds: Annotated[float, Field(gt=0, le=3_600)] = 30
    """How long the service may take until the probe answers with the Revision's tree id."""


class RuntimeFindings(Value):
    """What was found about the runtime around one batch, kept beside the run until the batch is sealed."""

    contaminated: bool = False
    """Another content than the Revision's was running, or nobody can say which."""
    stale: bool = False
    """The runtime answered for another content than the Revision's before anything was measured."""
    drift: tuple[str, ...] = ()
    """What changed while the batch ran; such a batch is partial at best."""
    problems: tuple[str, ...] = ()
    """What was wrong before and after alike; a gate calls it insufficient."""
    notes: tuple[str, ...] = ()
    """Sentences of the preparation, masked."""
    ended: bool = False
    """Whether the runtime was looked at after the batch."""
    components: tuple[dict[str, Any], ...] = ()
    """Each component as it was before the batch: version, expected_version, issue, sha256."""
    environment: dict[str, Any] = {}
    """The environment before the batch: platform, names of variables, and the target's Python with its packages."""


class MetricSource(Value):
    """An independent collector whose figures may count at a gate."""

    source: str
    evidence_ref: str


class Project(Record):
    """The configuration of a project. `run_config_digest` covers everything that shapes a run."""

    kind: ClassVar[str] = "project"
    as_given: ClassVar[bool] = True

    workspace_path: str
    created_at: str
    analysis_only: bool
    command: tuple[str, ...] = ()
    python: str | None = None
    working_directory: str = "."
    environment: tuple[str, ...] = ()
    """Names of variables that the agent is given besides the standard ones; values are never stored."""
    components: tuple[Component, ...] = ()
    runtime_notes: str = ""
    external_effects: tuple[ExternalEffect, ...] = ()
    allowed_paths: tuple[str, ...] = ()
    protected_paths: tuple[str, ...] = ()
    infrastructure_exit_codes: tuple[int, ...] = ()
    metric_sources: dict[str, MetricSource] = {}
    redact_keys: tuple[str, ...] = ()
    """Names of fields that are masked whatever they hold."""
    redact_patterns: tuple[str, ...] = ()
    """Regular expressions in RE2's syntax; what they match in a text is masked."""
    second_look: bool = False
    """Whether betterleaks scans what the rules have left."""
    loading_verification: dict[str, Any] = {}
    timeout_seconds: float = 120
    run_config_digest: Digest
    adapter: AdapterName = "command"
    adapter_options: dict[str, Any] = {}
    """As they were given and checked: see operations.execution.adapters.options."""
    adapter_sha256: Digest | None = None
    """Of the script `.atk/adapters/runner.py` that the `python` adapter starts."""
    env_file: str | None = None
    """A file of NAME=value lines, relative to the project. Its values reach the agent and are never stored."""
    env_file_names: tuple[str, ...] = ()
    """The names that `env_file` had at initialization."""
    case_environment: dict[str, str] = {}
    """Variables of each attempt: their values are templates like the command's arguments."""
    case_working_directory: str | None = None
    """Where each attempt starts: a template, relative to `working_directory`."""
    replay_preparation: Preparation | None = None
    require_confirmation: bool = False
    """Whether a client's word that a person allowed something is not enough."""
    probe_permissions: tuple[ProbePermission, ...] = ()

    @property
    def runnable(self) -> bool:
        """Whether the configuration says how an attempt is started."""
        return bool(self.command) or self.adapter != "command"
