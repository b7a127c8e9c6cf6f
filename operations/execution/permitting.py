"""Turns what a person lets probes start into frozen permissions, each script pinned by its digest."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationError

from operations import mistakes
from operations.definition import Model, Reason
from operations.execution import command, leftovers
from storage.errors import AtkError, NextCall
from storage.frames import digest
from storage.masking import KEY_BYTES, Masker
from storage.schema.probes import MOST_SECONDS, ProbePermission

SCRIPTS = ".atk/probes"
SCRIPT_BYTES = 1 << 20
"""The largest script that is pinned."""

MOST_PERMISSIONS = 20

_SCRIPT = re.compile(r"\.atk/probes/([A-Za-z0-9_][A-Za-z0-9._-]{0,99})")


@dataclass(kw_only=True, eq=False)
class ProbePermissionInvalid(AtkError):
    """A probe permission that is to be frozen cannot be used."""

    message: ClassVar[str] = "probe_permissions: {field} of {permission_id!r} {problem}. Nothing was stored."
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("{step}", supply={"probe_permissions": "with {field} corrected"}),
    )

    step: str
    permission_id: str
    field: str
    problem: str


@dataclass(kw_only=True, eq=False)
class ProbeScriptChanged(AtkError):
    """The probe's script is not the one that was permitted."""

    message: ClassVar[str] = (
        "{path} {problem}, but the permission {permission_id!r} is for the script of digest {expected}. Put that "
        "script back; or have the new one permitted, in a new Round or with initialize_project and revise."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (NextCall("get_status"),)

    path: str
    permission_id: str
    expected: str
    problem: str


class ProbePermissionGiven(Model):
    """What a request says of one permission."""

    id: Annotated[str, Field(min_length=1, max_length=64, description="Your name for it.")]
    script_path: Annotated[
        str | None, Field(description="`.atk/probes/NAME`: a script, pinned as it is now; a copy of it runs.")
    ] = None
    command: Annotated[
        list[str],
        Field(description="Started directly; placeholders as the project's. Default: Python, script, {input_file}."),
    ] = []
    isolation_ref: Annotated[Reason, Field(description="Where one can see that it acts on nothing outside.")]
    max_calls: Annotated[int, Field(ge=1, le=1_000, description="Executions that it pays for in all.")]
    timeout_seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS, description="Of one Execution.")] = 60
    case_ids: Annotated[list[str], Field(max_length=1_000, description="Allowed Cases; [] is any.")] = []
    working_directory: Annotated[str, Field(description="Relative to the project.")] = "."


def permissions(
    given: Sequence[ProbePermissionGiven | Mapping[str, Any]], root: str, *, python: str | None, step: str
) -> tuple[ProbePermission, ...]:
    """Returns what is to be frozen.

    Args:
        given: As the person gave them; plain values are checked against `ProbePermissionGiven` first.
        root: The project's folder.
        python: What starts a script without a command of its own; this server's interpreter unless given.
        step: The operation that freezes them.

    Raises:
        ProbePermissionInvalid: It names the permission, the field and what is wrong.
    """
    found = [_frozen(_checked(each, step), root, python or sys.executable, step) for each in given]
    names = [permission.id for permission in found]
    for name in names:
        if names.count(name) > 1:
            raise _invalid(step, name, "id", "is given twice")
    return tuple(found)


def script_of(permission: ProbePermission, root: str) -> bytes | None:
    """Returns the bytes of the permission's script, or None where it has none.

    Raises:
        ProbeScriptChanged: They are not those that were permitted.
    """
    if permission.script_path is None:
        return None
    data, problem = _read(permission.script_path, root)
    if data is not None and digest(data) != permission.script_sha256:
        problem = f"has the digest {digest(data)}"
    if data is None or problem:
        raise ProbeScriptChanged(
            path=permission.script_path,
            permission_id=permission.id,
            expected=str(permission.script_sha256),
            problem=problem,
        )
    return data


def _checked(given: ProbePermissionGiven | Mapping[str, Any], step: str) -> ProbePermissionGiven:
    if isinstance(given, ProbePermissionGiven):
        return given
    try:
        return ProbePermissionGiven.model_validate(given)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        problem = f"{mistakes.said(first)}; the fields are {', '.join(ProbePermissionGiven.model_fields)}"
        raise _invalid(step, str(given.get("id", "")), field, problem) from None


def _frozen(given: ProbePermissionGiven, root: str, python: str, step: str) -> ProbePermission:
    argv = list(given.command)
    if not argv and given.script_path is not None:
        argv = [python.replace("{", "{{"), given.script_path, "{input_file}"]
    for field, problem in (
        ("command", _command_problem(argv, given.script_path)),
        ("working_directory", _folder_problem(given.working_directory, root)),
        ("command", _secret_problem(given)),
    ):
        if problem:
            raise _invalid(step, given.id, field, problem)
    pin = None
    if given.script_path is not None:
        data, problem = _read(given.script_path, root)
        if data is None:
            raise _invalid(step, given.id, "script_path", f"names {given.script_path}, which {problem}")
        pin = digest(data)
    return ProbePermission(
        id=given.id,
        command=tuple(argv),
        script_path=given.script_path,
        script_sha256=pin,
        case_ids=tuple(given.case_ids),
        working_directory=given.working_directory,
        isolation_ref=given.isolation_ref,
        timeout_seconds=given.timeout_seconds,
        max_calls=given.max_calls,
    )


def _command_problem(argv: Sequence[str], script_path: str | None) -> str:
    if not argv:
        return "is empty, and there is no script_path either"
    try:
        command.check_template(argv)
    except (command.CommandNotAList, command.NulInCommand, command.UnknownPlaceholder) as wrong:
        return f"cannot be started ({str(wrong).rstrip('.')})"
    if script_path is not None and script_path not in argv:
        return f"does not have {script_path} as an argument, so the pinned script would not be what runs"
    if strays := [part for part in argv if f"{SCRIPTS}/" in part and part != script_path]:
        return f"names {strays[0]}, which script_path does not pin"
    return ""


def _folder_problem(given: str, root: str) -> str:
    top = os.path.realpath(root)
    try:
        path = os.path.realpath(os.path.join(top, given))
    except ValueError:
        return "holds a NUL character"
    if os.path.commonpath([top, path]) != top or ".atk" in os.path.relpath(path, top).split(os.sep):
        return f"is {given}, which is not inside the project"
    return "" if os.path.isdir(path) else f"is {given}, and there is no such folder"


def _secret_problem(given: ProbePermissionGiven) -> str:
    if Masker(bytes(KEY_BYTES)).changed(given.model_dump(mode="json")):
        return "or another field holds what looks like a credential, and permissions are stored as they are given"
    return ""


def _read(script_path: str, root: str) -> tuple[bytes | None, str]:
    """Returns a script's bytes, or None and what is wrong."""
    named = _SCRIPT.fullmatch(script_path)
    if named is None:
        return None, f"is not of the form {SCRIPTS}/NAME"
    try:
        data = leftovers.read(os.path.join(root, *SCRIPTS.split("/")), named[1], SCRIPT_BYTES + 1)
    except leftovers.Unusable as why:
        return None, f"is no usable file: {why}"
    if data is None:
        return None, "does not exist"
    return (data, "") if len(data) <= SCRIPT_BYTES else (None, f"is larger than {SCRIPT_BYTES} bytes")


def _invalid(step: str, permission_id: str, field: str, problem: str) -> ProbePermissionInvalid:
    return ProbePermissionInvalid(step=step, permission_id=permission_id, field=field, problem=problem)
