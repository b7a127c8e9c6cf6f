"""Checks a project's configuration before it is stored: what could not run is refused, what might not is said."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ValidationError

from operations import mistakes
from operations.execution.adapters.options import check_options
from operations.execution.adapters.variables import missing_at_start
from operations.execution.command import NulInCommand, UnknownPlaceholder, check_template
from operations.execution.versions import VERSION
from storage.errors import AtkError, NextCall
from storage.schema.projects import Component, Preparation, Project
from storage.worktree import check_patterns

_HIGHEST_EXIT_CODE = 255


@dataclass(kw_only=True, eq=False)
class BadConfiguration(AtkError):
    """One field of the configuration cannot be used."""

    message: ClassVar[str] = "{field} {problem}; given: {given}. Correct it."
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("initialize_project", supply={"arguments": "with {field} corrected"}),
    )

    field: str
    given: str
    problem: str


def check_configuration(project: Project, root: str) -> list[str]:
    """Returns warnings about a configuration that can be stored: sentences, none for an ordinary one.

    Raises:
        BadConfiguration: A field cannot be used.
        BadAdapterOption: An option of the adapter cannot be used.
        EnvFileUnusable: The file of variables cannot be used.
        CommandNotAList: The command is not a non-empty list of strings.
        NulInCommand: An argument contains a NUL.
        UnknownPlaceholder: An argument has a placeholder that does not exist.
    """
    check_options(project.adapter, project.adapter_options)
    warnings = _check_command(project)
    check_patterns([*project.allowed_paths, *project.protected_paths])
    _check_names(project)
    for component in project.components:
        _check_version(component)
    _check_templates(project)
    warnings += missing_at_start(project, root)
    preparation = project.replay_preparation
    if preparation is not None and preparation.mode == "command" and not preparation.probe:
        warnings.append(
            "replay_preparation has no probe, so nothing proves that the runtime follows a changed Revision: a stale "
            "image would be measured without anybody noticing."
        )
    warnings += [
        f"external_effects: {effect.name} has no protection yet, and no run starts before it has."
        for effect in project.external_effects
        if effect.protection is None
    ]
    return warnings


def check_preparation(given: Mapping[str, Any]) -> Preparation | None:
    """Returns the preparation that a request gives, or None where it gives none.

    Raises:
        BadConfiguration: A field is unknown or has a value it cannot have.
    """
    if not given:
        return None
    try:
        found = Preparation.model_validate({"mode": "command", **given})
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        field = ".".join(["replay_preparation", *(str(part) for part in first["loc"])])
        known = ", ".join(Preparation.model_fields)
        problem = f"{mistakes.said(first)}; the fields of replay_preparation are {known}"
        raise BadConfiguration(field=field, given=", ".join(given), problem=problem) from None
    if found.mode == "command" and not (found.argv or found.service):
        problem = "of mode command needs an argv or a service"
        raise BadConfiguration(field="replay_preparation", given=", ".join(given), problem=problem)
    return found


def _check_command(project: Project) -> list[str]:
    if project.adapter != "command":
        if project.command:
            problem = f"belongs to the adapter command; the adapter {project.adapter} starts attempts by itself"
            raise BadConfiguration(field="command", given=str(list(project.command)), problem=problem)
        return []
    warnings = list(check_template(project.command))
    program = project.command[0]
    if "{" not in program and "/" not in program and shutil.which(program) is None:
        warnings.append(f"command: {program} is not on this machine's PATH now.")
    return warnings


def _check_names(project: Project) -> None:
    codes = project.infrastructure_exit_codes
    if any(not 1 <= code <= _HIGHEST_EXIT_CODE for code in codes) or len(set(codes)) != len(codes):
        raise BadConfiguration(
            field="infrastructure_exit_codes",
            given=str(list(codes)),
            problem="has to list different numbers from 1 to 255",
        )
    ids = [component.component_id for component in project.components]
    if len(set(ids)) != len(ids):
        raise BadConfiguration(field="components", given=str(ids), problem="has to name each component_id once")
    for field, names in (("environment", project.environment), ("case_environment", tuple(project.case_environment))):
        for name in names:
            if not name.isidentifier() or not name.isascii():
                problem = "has to list names of variables, not values"
                raise BadConfiguration(field=field, given=name, problem=problem)
            if name.startswith(("LD_", "DYLD_")):
                raise BadConfiguration(field=field, given=name, problem="may not name variables of the loader")


def _check_version(component: Component) -> None:
    field, expected = f"version_command of {component.component_id}", component.expected_version
    if component.version_command and component.change_role != "fixed":
        problem = "is for fixed components only; the version of a variable one is the Revision's content"
        raise BadConfiguration(field=field, given=component.change_role, problem=problem)
    if expected is not None and not (component.version_command and VERSION.fullmatch(expected)):
        problem = "needs a version_command, and is 1 to 128 letters, digits or ._+:/@- without spaces"
        raise BadConfiguration(field=f"expected_version of {component.component_id}", given=expected, problem=problem)


def _check_templates(project: Project) -> None:
    templates = {f"case_environment.{name}": value for name, value in project.case_environment.items()}
    if project.case_working_directory is not None:
        templates["case_working_directory"] = project.case_working_directory
    for field, template in templates.items():
        try:
            check_template(["agent", template])
        except (UnknownPlaceholder, NulInCommand) as wrong:
            problem = f"cannot be filled in ({wrong})"
            raise BadConfiguration(field=field, given=template, problem=problem) from wrong
