"""Carries out a split of a dataset: reads its Cases once, deals, and keeps out of holdout what is known already."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from operations.importers._cases_sealed import as_known, known_inputs
from operations.importers._cases_sources import FileSource, RecordSource
from operations.importers._cases_split import Split, SplitRefused, group_key
from operations.wording import counted
from storage.project import Project
from storage.projection import State
from storage.schema.datasets import SplitMade, Usage

_SIDES: tuple[Usage, ...] = ("optimization", "protection", "holdout")


@dataclass
class Division:
    """A split of the Cases of one source, and which of their groups were seen elsewhere."""

    project: Project
    protection: float
    seed: int
    holdout: float = 0
    seen: int = 0
    """Source groups that could be no holdout, because they or their inputs are known."""
    _split: Split = field(init=False)
    _inputs: dict[str, set[str]] = field(default_factory=dict)
    """Digest of an input → keys of the groups that have it, where a holdout is dealt."""

    def __post_init__(self) -> None:
        self._split = Split(self.protection, self.seed, self.holdout)

    def decide(self, source: FileSource | RecordSource, state: State, seen_groups: Collection[str] = ()) -> str:
        """Reads all Cases once and decides their usages. Returns the digest of what was read.

        Args:
            source: What the Cases are made of.
            state: The project's, in which an input may be known already.
            seen_groups: Source groups that are known by name and can be no holdout.

        Raises:
            SplitRefused: A holdout is wanted of Records, which lie open as evidence.
        """
        if self.holdout and isinstance(source, RecordSource):
            problem = f"the Records of {source.name} lie open in the store, so none can be an unseen holdout"
            raise SplitRefused(problem=problem)
        cases = source.cases(self._note)
        for _ in cases:
            pass
        seen = self._seen(state, seen_groups) if self.holdout else set()
        self.seen = len(seen)
        self._split.decide(seen)
        return source.sha256(cases)

    def usage(self, key: str, given: Usage | None, asked: Any) -> Usage:  # noqa: ANN401, ARG002 - an input is any JSON
        """Returns the usage of a Case."""
        return self._split.usage(key, given)

    def group_counts(self) -> dict[str, int]:
        """Returns how many groups have which usage."""
        return self._split.group_counts()

    def made(self) -> SplitMade:
        """Returns what the dataset keeps of it."""
        counts = self.group_counts()
        return SplitMade(protection=self.protection, holdout=self.holdout, seed=self.seed, group_counts=counts)

    def warnings(self, usage_counts: Mapping[Usage, int]) -> list[str]:
        """Says where a side stays empty though it was asked for, and what could be no holdout."""
        wanted = {"optimization": 1.0, "protection": self.protection, "holdout": self.holdout}
        groups = counted(self._split.groups, "source group")
        said = [
            f"No Case is for {usage}: {groups} cannot be divided so."
            for usage in _SIDES
            if wanted[usage] and not usage_counts[usage]
        ]
        if self.seen:
            number = counted(self.seen, "source group")
            said.append(
                f"{number} could be no holdout: the group or an input of it is known elsewhere in the project. "
                "Only Cases that are new to it can be held out."
            )
        return said

    def _note(self, key: str, given: Usage | None, asked: Any) -> Usage:  # noqa: ANN401 - an input is any JSON
        if self.holdout:
            for digest in as_known(self.project, asked):
                self._inputs.setdefault(digest, set()).add(key)
        return self._split.note(key, given)

    def _seen(self, state: State, groups: Collection[str]) -> set[str]:
        """Returns the keys of the groups that are known: by name, by an input, or by sharing an input with another."""
        known = {group_key(group, {}) for group in groups}
        found = {key for keys in self._inputs.values() for key in keys if key in known or len(keys) > 1}
        for digest, _ in known_inputs(self.project, state):
            found |= self._inputs.get(digest, set())
        return found
