"""A project: how its agent is started and what may be changed."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from storage.schema.base import Digest, Record, Value

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


class MetricSource(Value):
    """An independent collector whose figures may count at a gate."""

    source: str
    evidence_ref: str


class Project(Record):
    """The configuration of a project. `run_config_digest` covers everything that shapes a run."""

    kind: ClassVar[str] = "project"

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
    loading_verification: dict[str, Any] = {}
    timeout_seconds: float = 120
    run_config_digest: Digest
