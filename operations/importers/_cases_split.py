"""Divides Cases into optimization and protection by source group, by a seed, and never cuts a group."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from storage.frames import canonical, digest
from storage.schema.datasets import Usage


def group_key(group: str | None, content: Mapping[str, Any]) -> str:
    """Returns what must stay together: the source group, else all Cases of the same content, whatever their ids."""
    if group is not None:
        return f"group:{group}"
    same = ("input", "expected_present", "expected", "initial_conditions", "attachments")
    return f"content:{digest(canonical({name: content[name] for name in same if name in content}))}"


@dataclass
class _Group:
    """The Cases of one key: how many have which usage from their source, and how many have none."""

    given: dict[Usage, int] = field(default_factory=dict)
    free: int = 0

    @property
    def size(self) -> int:
        return self.free + sum(self.given.values())


class Split:
    """A seeded division. First `note` every Case, then `decide`, then ask `usage` for every Case again.

    Groups are taken into protection in the order of the SHA-256 of `<seed>:<key>`, each where it brings the number of
    protected Cases nearer to the share asked for. So the order of rows does not matter. A usage that the source gives
    stands, and draws the other Cases of its group along; where the source itself has a group on both sides, the group's
    other Cases go to optimization, since what is protected is to be unseen.
    """

    def __init__(self, share: float, seed: int) -> None:
        """`share`: protected Cases for each Case, between 0 and 1."""
        self._share = share
        self._seed = seed
        self._groups: dict[str, _Group] = {}
        self._protected: set[str] = set()

    def note(self, key: str, given: Usage | None) -> Usage:
        """Counts a Case. Returns a usage that stands for the one to be decided."""
        group = self._groups.setdefault(key, _Group())
        if given is None:
            group.free += 1
            return "optimization"
        group.given[given] = group.given.get(given, 0) + 1
        return given

    def decide(self) -> None:
        """Decides for every group that was noted."""
        wanted = self._share * sum(group.size for group in self._groups.values())
        taken = sum(group.given.get("protection", 0) for group in self._groups.values())
        open_groups: list[str] = []
        for key, group in self._groups.items():
            if not group.given:
                open_groups.append(key)
            elif set(group.given) == {"protection"}:
                self._protected.add(key)
                taken += group.free
        for key in sorted(open_groups, key=self._lot):
            size = self._groups[key].size
            if abs(taken + size - wanted) < abs(taken - wanted):
                self._protected.add(key)
                taken += size

    def usage(self, key: str, given: Usage | None) -> Usage:
        """Returns the usage of a Case."""
        return given or ("protection" if key in self._protected else "optimization")

    @property
    def groups(self) -> int:
        """How many groups there are; Cases without one count by their content."""
        return len(self._groups)

    def group_counts(self) -> dict[str, int]:
        """Returns how many groups are wholly of each usage, and how many the source itself has on both sides."""
        both = sum(len(group.given) > 1 for group in self._groups.values())
        blind = sum(set(group.given) == {"holdout"} for group in self._groups.values())
        protected = len(self._protected)
        counts = {"optimization": self.groups - protected - both - blind, "protection": protected}
        return {**counts, "both_by_source": both, **({"holdout": blind} if blind else {})}

    def _lot(self, key: str) -> bytes:
        return hashlib.sha256(f"{self._seed}:{key}".encode("utf-8", "surrogatepass")).digest()
