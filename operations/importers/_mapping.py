"""Checks what a request says beside its source against what a format of its own makes use of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operations.importers._fields import ROLES
from operations.importers._folders import RoleWithoutFile
from operations.importers._source import Options
from operations.importers._streams import EvidenceRefused


@dataclass(kw_only=True, eq=False)
class MappingNotRead(EvidenceRefused):
    """The mapping names a field that this format takes from nowhere else."""

    message = (
        "mapping.{role} names {field!r}, and of {kind} these can be mapped: {allowed}. Nothing was stored. "
        "Leave the others out; everything that the export says is kept under its own name."
    )

    kind: str
    role: str
    field: str
    allowed: tuple[str, ...]


def check_mappings(kind: str, mappings: Sequence[Mapping[str, str]], allowed: Sequence[Sequence[str]]) -> None:
    """Checks the mappings of trace, observation and score against what the format reads by them.

    Raises:
        MappingNotRead: One is not among them.
    """
    for number, mapping in enumerate(mappings):
        for name in mapping:
            if name not in allowed[number]:
                shown = tuple(f"{ROLES[role]}.{one}" for role, names in enumerate(allowed) for one in names)
                raise MappingNotRead(kind=kind, role=ROLES[number], field=name[:80], allowed=shown or ("none",))


def left_out(path: str, names: Sequence[str], options: Options) -> set[str]:
    """Returns the files that `file_roles` leaves out.

    Raises:
        RoleWithoutFile: It names a file that is not there.
    """
    if absent := tuple(name for name in options.file_roles if name not in names):
        raise RoleWithoutFile(given=absent, path=path, found=tuple(names[:20]))
    return {name for name, role in options.file_roles.items() if role == "ignore"}


def not_used(kind: str, options: Options, *, roots: bool) -> list[str]:
    """Returns a warning of what was said and is not used. `roots`: the format has roots to choose from."""
    said = {
        "adapter_profile": options.adapter_profile,
        "mapping of columns": options.columns.named(),
        "mapping.root_observation_name": None if roots else options.root_observation_name,
        "json_columns": options.json_columns,
        "file_roles other than ignore": set(options.file_roles.values()) - {"ignore"},
    }
    names = [name for name, given in said.items() if given]
    return [f"not used for {kind}, which names its own fields: {', '.join(names)}"] if names else []
