"""Divides Cases into optimization, protection and holdout by source group, by a seed, and never cuts a group."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from storage.errors import AtkError, NextCall
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


@dataclass(kw_only=True, eq=False)
class SplitRefused(AtkError):
    """The shares of a split leave nothing to divide, or would take a holdout from what lies open."""

    message = (
        "split cannot be made: {problem}. protection and holdout are shares of all Cases, from 0 to below 1, together "
        "above 0 and below 1, so that some are left to optimize on; a holdout is dealt from a file."
    )
    next_calls = (NextCall("store_dataset", supply={"split": "protection, holdout or both, such as 0.3 and 0.2"}),)

    problem: str


class Split:
    """A seeded division. First `note` every Case, then `decide`, then ask `usage` for every Case again.

    Groups are taken in the order of the SHA-256 of `<seed>:<key>`, first into holdout, then into protection, each where
    it brings the number of Cases there nearer to the share asked for. So the order of rows does not matter. A usage
    that the source gives stands, and draws the other Cases of its group along; where the source itself has a group on
    several sides, the group's other Cases go to optimization, since what is protected is to be unseen.
    """

    def __init__(self, protection: float, seed: int, holdout: float = 0) -> None:
        """Takes the protected and the held out Cases for each Case, between 0 and 1.

        Raises:
            SplitRefused: Nothing is to be divided, or nothing would be left to optimize on.
        """
        if not 0 < protection + holdout < 1:
            raise SplitRefused(problem=f"protection {protection:g} and holdout {holdout:g} are given")
        self._shares: dict[Usage, float] = {"holdout": holdout, "protection": protection}
        self._seed = seed
        self._groups: dict[str, _Group] = {}
        self._taken: dict[str, Usage] = {}

    def note(self, key: str, given: Usage | None) -> Usage:
        """Counts a Case. Returns a usage that stands for the one to be decided."""
        group = self._groups.setdefault(key, _Group())
        if given is None:
            group.free += 1
            return "optimization"
        group.given[given] = group.given.get(given, 0) + 1
        return given

    def decide(self, seen: Collection[str] = ()) -> None:
        """Decides for every group that was noted; the keys in `seen` are of groups that can be no holdout."""
        number = sum(group.size for group in self._groups.values())
        taken = {u: sum(group.given.get(u, 0) for group in self._groups.values()) for u in self._shares}
        open_groups: list[str] = []
        for key, group in self._groups.items():
            if not group.given:
                open_groups.append(key)
            elif len(group.given) == 1 and (usage := next(iter(group.given))) in self._shares:
                self._taken[key] = usage
                taken[usage] += group.free
        open_groups.sort(key=self._lot)
        for usage, share in self._shares.items():
            for key in open_groups:
                size = self._groups[key].size
                free = key not in self._taken and not (usage == "holdout" and key in seen)
                if free and abs(taken[usage] + size - share * number) < abs(taken[usage] - share * number):
                    self._taken[key] = usage
                    taken[usage] += size

    def usage(self, key: str, given: Usage | None) -> Usage:
        """Returns the usage of a Case."""
        return given or self._taken.get(key, "optimization")

    @property
    def groups(self) -> int:
        """How many groups there are; Cases without one count by their content."""
        return len(self._groups)

    def group_counts(self) -> dict[str, int]:
        """Returns how many groups are wholly of each usage, and how many the source itself has on several sides."""
        both = sum(len(group.given) > 1 for group in self._groups.values())
        taken = list(self._taken.values())
        protected, blind = taken.count("protection"), taken.count("holdout")
        counts = {"optimization": self.groups - protected - blind - both, "protection": protected}
        asked = bool(blind or self._shares["holdout"])
        return {**counts, "both_by_source": both, **({"holdout": blind} if asked else {})}

    def _lot(self, key: str) -> bytes:
        return hashlib.sha256(f"{self._seed}:{key}".encode("utf-8", "surrogatepass")).digest()
