"""Refuses a mapping of what a format does not read by a mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operations.importers._fields import ROLES
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
