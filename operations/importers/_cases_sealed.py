"""Seals holdout Cases as they are stored, and finds those whose input is known from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from operations.importers import stored
from operations.wording import counted
from storage import contents
from storage.frames import canonical, digest
from storage.holdout import new_key, sealed_case
from storage.project import Project
from storage.projection import State
from storage.schema.datasets import Case, Dataset
from storage.schema.exposures import Exposure
from storage.schema.traces import ImportedBatch
from storage.sealing import SealKey

_NAMED = 5
"""How many places an exposure names."""


@dataclass(frozen=True)
class Known:
    """Source groups of new holdout Cases whose input is stored elsewhere too, where it can be read."""

    groups: tuple[str, ...]
    case_fingerprints: tuple[str, ...]
    seen_in: tuple[str, ...]
    """Ids of the Records and Cases that have the input; the first few."""

    def exposure(self, new_id: str, dataset_id: str, at: str) -> Exposure:
        """Returns what is recorded of them with their dataset."""
        return Exposure(
            id=new_id,
            how="known_input",
            source_groups=self.groups,
            dataset_id=dataset_id,
            case_fingerprints=self.case_fingerprints,
            seen_in=self.seen_in,
            created_at=at,
        )


@dataclass
class Sealer:
    """Seals the holdout Cases of one dataset, and remembers which inputs they have."""

    project: Project
    count: int = 0
    key: SealKey | None = None
    """Made or read when the first holdout Case is met."""
    _inputs: dict[str, list[Case]] = field(default_factory=dict)
    _open: dict[str, str] = field(default_factory=dict)
    """Digest of an input → id of a Case of the same source that is no holdout."""

    def key_for(self, case: Case) -> SealKey | None:
        """Returns what a Case is to be sealed with; None for one that is no holdout.

        Raises:
            HoldoutKeyUnusable: The key cannot be made or read.
            HoldoutKeyMissing: Earlier holdout Cases have a key that is not here.
        """
        if case.usage != "holdout":
            return None
        if self.key is None:
            self.key = new_key(self.project)
        return self.key

    def stored(self, case: Case) -> Case:
        """Returns a Case as it is stored: sealed where it is a holdout."""
        seen = _digest(case.input)
        if (key := self.key_for(case)) is None:
            self._open.setdefault(seen, case.id)
            return case
        self.count += 1
        sealed = sealed_case(case, key)
        for as_read in as_known(self.project, case.input):
            self._inputs.setdefault(as_read, []).append(sealed)
        return sealed

    def known(self, state: State) -> Known | None:
        """Returns which of the holdout Cases are no secret: evidence or other Cases hold the same input in the clear.

        Inputs of evidence are compared as they are masked, since they are stored so.
        """
        if not self._inputs:
            return None
        found: dict[str, list[str]] = {}
        for seen, name in self._elsewhere(state):
            if seen in self._inputs and len(found.setdefault(seen, [])) < _NAMED:
                found[seen].append(name)
        cases = {case.id: case for seen in found for case in self._inputs[seen]}
        if not cases:
            return None
        return Known(
            groups=tuple(dict.fromkeys(str(case.source_group_id) for case in cases.values())),
            case_fingerprints=tuple(case.fingerprint for case in cases.values()),
            seen_in=tuple(dict.fromkeys(name for names in found.values() for name in names))[:_NAMED],
        )

    def warnings(self, source: str, known: Known | None) -> list[str]:
        """Returns what a person has to know of the holdout Cases, in sentences."""
        if not self.count:
            return []
        number = "The holdout Case lies" if self.count == 1 else f"The {self.count} holdout Cases lie"
        said = [
            (
                f"{number} encrypted under .atk/, but {source} stays readable to whoever has a shell here, the agent "
                "and the client's model included: move it where they cannot read it."
            )
        ]
        if known is not None:
            cannot = counted(len(known.groups), "source group")
            inputs = ", ".join(known.seen_in)
            said.append(f"{cannot} cannot be a fresh holdout, since the same input is known from {inputs}.")
        return said

    def _elsewhere(self, state: State) -> Iterator[tuple[str, str]]:
        yield from self._open.items()
        yield from known_inputs(self.project, state)


def known_inputs(project: Project, state: State) -> Iterator[tuple[str, str]]:
    """Yields the digest of every input that the store holds in the clear, and the id of what has it.

    Inputs of evidence are digested as they are masked, since they are stored so.
    """
    for dataset in state.all(Dataset):
        for case in contents.cases(project, state, dataset.id):
            if case.sealed is None:
                yield _digest(case.input), f"{dataset.id}/{case.id}"
    for batch in state.all(ImportedBatch):
        if batch.counts.get("records"):
            yield from _imported(stored.records(project, state, batch.id))


def as_known(project: Project, value: Any) -> set[str]:  # noqa: ANN401 - JSON
    """Returns the digests under which `known_inputs` would name an input."""
    return {_digest(value), _digest(project.masker.value(value))}


def _imported(records: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for record in records:
        asked = record.get("input") or {}
        if asked.get("status") == "value":
            yield _digest(asked.get("value")), str(record["id"])


def _digest(value: Any) -> str:  # noqa: ANN401 - JSON
    """Returns what two inputs share that ask the same, however their text is spaced."""
    return digest(canonical(" ".join(value.split()) if isinstance(value, str) else value))
