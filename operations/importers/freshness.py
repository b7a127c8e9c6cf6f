"""Which source groups of a plan's holdout ask what is known from elsewhere, or what was run as a holdout before."""

from __future__ import annotations

from collections.abc import Iterator

from operations.importers._cases_sealed import as_known, known_inputs
from storage import contents
from storage.holdout import cases_for_work
from storage.project import Project
from storage.projection import State
from storage.schema.datasets import Case, Dataset
from storage.schema.exposures import Exposure
from storage.schema.rounds import Plan
from storage.schema.traces import ImportedBatch


class KnownInputs:
    """Finds them once for as long as nothing that holds inputs is stored: there may be much to read."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._found: tuple[object, dict[str, str]] | None = None

    def groups(self, state: State, plan: Plan) -> dict[str, str]:
        """Returns source group → how the input of one of its holdout Cases came to be known.

        Names do not matter: a holdout that is stored again under another source group is the same holdout.

        Raises:
            HoldoutKeyMissing: The holdout Cases are sealed with a key that is not here.
            HoldoutKeyUnusable: Its file is no key.
            StoreDamaged: A dataset or a batch does not hold what was recorded.
        """
        held = [set(state.objects.get(kind.kind, {})) for kind in (Dataset, ImportedBatch, Exposure)]
        basis = held, plan.dataset_id, plan.holdout_case_ids
        if self._found is None or self._found[0] != basis:
            self._found = basis, self._groups(state, plan)
        return self._found[1]

    def _groups(self, state: State, plan: Plan) -> dict[str, str]:
        asked: dict[str, set[str]] = {}
        for case in self._opened(state, plan.dataset_id, plan.holdout_case_ids):
            for seen in as_known(self._project, case.input):
                asked.setdefault(seen, set()).add(str(case.source_group_id))
        found: dict[str, str] = {}
        for seen, name in known_inputs(self._project, state):
            for group in asked.get(seen, ()):
                found.setdefault(group, f"its input is known from {name}")
        for name, case in self._exposed(state):
            for group in {g for seen in as_known(self._project, case.input) for g in asked.get(seen, ())}:
                found.setdefault(group, f"its input was seen as that of {name}")
        return found

    def _exposed(self, state: State) -> Iterator[tuple[str, Case]]:
        """Yields the holdout Cases of all datasets that are no fresh ones any more."""
        exposures = state.all(Exposure)
        groups = {group for e in exposures for group in e.source_groups}
        fingerprints = {fingerprint for e in exposures for fingerprint in e.case_fingerprints}
        for dataset in state.all(Dataset) if exposures else ():
            cases = contents.cases(self._project, state, dataset.id)
            seen = [c.id for c in cases if c.source_group_id in groups or c.fingerprint in fingerprints]
            for case in self._opened(state, dataset.id, seen):
                yield f"{dataset.id}/{case.id}", case

    def _opened(self, state: State, dataset_id: str, case_ids: tuple[str, ...] | list[str]) -> Iterator[Case]:
        wanted = set(case_ids)
        cases = contents.cases(self._project, state, dataset_id)
        return cases_for_work(self._project, [c for c in cases if c.id in wanted and c.sealed is not None])
