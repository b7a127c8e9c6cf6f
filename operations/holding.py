"""Gathers the holdout Cases of a project, so that rows can be held against them."""

from __future__ import annotations

from collections import Counter

from operations.tuning.holding_out import HeldOut, Names, parts_in, parts_of
from operations.tuning.readings import leaves_of
from storage import contents
from storage.holdout import cases_for_work
from storage.project import Project
from storage.projection import State
from storage.schema.datasets import Case, Dataset

WORDING, FEW = 0.5, 10
"""The share of a dataset's usual Cases, and of how many at the least, that makes a piece of text the wording of every
question there, and so no holdout's alone in any dataset. In its own dataset one usual Case is enough."""


def held_out(project: Project, state: State) -> HeldOut:
    """Returns the holdout Cases of every dataset, whether their Round has opened them or not.

    Raises:
        HoldoutKeyMissing: They are sealed with a key that is not here, so nothing can be held against them.
        HoldoutKeyUnusable: Its file is no key.
        SealBroken: A Case's bytes are not those that were sealed.
        StoreDamaged: A dataset is not what was recorded.
    """
    found, mask = HeldOut(), project.masker.value
    blind: list[tuple[Case, str, set[str], set[str]]] = []
    for dataset in state.all(Dataset):
        if not dataset.usage_counts.get("holdout"):
            continue
        cases = contents.cases(project, state, dataset.id)
        usual = [case for case in cases if case.usage != "holdout"]
        told = {leaf for case in usual if len(leaves := leaves_of(case.input)) > 1 for leaf in leaves}
        labels = {leaf for case in usual for leaf in leaves_of(case.expected)}
        held = cases_for_work(project, [case for case in cases if case.usage == "holdout"])
        blind += [(case, dataset.id, told, labels) for case in held]
    shared = _shared(project, state, {part for case, *_ in blind for part in _parts(case)}) if blind else {}
    wording = {part for by_dataset in shared.values() for part, share in by_dataset.items() if share >= WORDING}
    for case, dataset_id, told, labels in blind:
        answers = {leaf for given in (case.expected, mask(case.expected)) for leaf in leaves_of(given)} - labels
        usual_parts = wording | shared[dataset_id].keys()
        found.add(names_of(case), (case.input, mask(case.input)), told, usual_parts, answers)
    return found


def _parts(case: Case) -> set[str]:
    return {part for leaf in leaves_of(case.input) for part in parts_of(leaf)}


def _shared(project: Project, state: State, parts: set[str]) -> dict[str, dict[str, float]]:
    """Returns for each dataset the parts that are in the inputs of its usual Cases, with the share of those Cases."""
    found: dict[str, dict[str, float]] = {}
    for dataset in state.all(Dataset):
        usual = [case for case in contents.cases(project, state, dataset.id) if case.usage != "holdout"]
        counts: Counter[str] = Counter()
        for case in usual:
            counts.update(set().union(*(parts_in(leaf, parts) for leaf in leaves_of(case.input))))
        found[dataset.id] = {part: count / max(len(usual), FEW) for part, count in counts.items()}
    return found


def names_of(case: Case) -> list[Names]:
    """Returns what a Case is called, and what it was made of."""
    names = [Names(case_id=case.id, fingerprint=case.fingerprint, source_group=case.source_group_id)]
    if (origin := case.origin) is not None:
        names.append(
            Names(
                record_id=origin.record_id,
                trace=pair(origin.namespace, origin.trace_id),
                session=pair(origin.namespace, origin.session_id),
            )
        )
    return names


def pair(namespace: str | None, name: str | None) -> tuple[str, str] | None:
    """Returns a name with the namespace that it is of, or None where there is none."""
    return None if name is None else (namespace or "", name)
