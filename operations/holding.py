"""Gathers the holdout Cases of a project, so that rows can be held against them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from operations.tuning.holding_out import HeldOut, Names, parts_in, parts_of
from operations.tuning.readings import leaves_of, plain_text
from storage import contents
from storage.holdout import cases_for_work, key_of, opened_attachment
from storage.project import Project
from storage.projection import State
from storage.schema.datasets import Case, Dataset

SHARE, FEW = 0.5, 10
"""The share of a dataset's usual Cases, and of how many at the least, that makes a piece of text the wording of every
question there, and so no holdout's alone in any dataset. In its own dataset one usual Case is enough."""

ATTACHED = 50_000
"""Bytes of an attachment, from its beginning, whose text is looked for."""


def held_out(project: Project, state: State) -> HeldOut:
    """Returns the holdout Cases of every dataset, whether their Round has opened them or not.

    Raises:
        HoldoutKeyMissing: They are sealed with a key that is not here, so nothing can be held against them.
        HoldoutKeyUnusable: Its file is no key.
        SealBroken: A Case's bytes are not those that were sealed.
        StoreDamaged: A dataset is not what was recorded.
    """
    if not any(dataset.usage_counts.get("holdout") for dataset in state.all(Dataset)):
        return HeldOut()
    every = [(dataset, list(contents.cases(project, state, dataset.id))) for dataset in state.all(Dataset)]
    usual = {dataset.id: [case for case in cases if case.usage != "holdout"] for dataset, cases in every}
    seen = {file.sha256 for cases in usual.values() for case in cases for file in case.attachments}
    found, mask = HeldOut(), project.masker.value
    for dataset, cases in every:
        sealed = [case for case in cases if case.usage == "holdout"]
        blind = list(cases_for_work(project, sealed))
        texts = [text for case in blind for text in leaves_of(case.input)]
        attached = _attached(project, dataset, zip(sealed, blind, strict=True), seen)
        pieces = {piece for text in (*texts, *map(plain_text, attached)) for piece in parts_of(text)}
        common = _common(usual[dataset.id], _wording(usual, pieces, dataset.id))
        labels = {leaf for case in usual[dataset.id] for leaf in leaves_of(case.expected)}
        for case in blind:
            answers = {leaf for given in (case.expected, mask(case.expected)) for leaf in leaves_of(given)} - labels
            found.add(names_of(case), (case.input, mask(case.input)), common, answers)
        for text in attached:
            found.add_attached((text, mask(text)), common)
    return found


def _common(usual: Iterable[Case], wording: set[str]) -> set[str]:
    """Returns what usual Cases of a dataset are told beside their question, and the wording that holdouts share."""
    told = {leaf for case in usual if len(leaves := leaves_of(case.input)) > 1 for leaf in leaves}
    return told | wording


def _wording(usual: Mapping[str, Sequence[Case]], pieces: set[str], own: str) -> set[str]:
    """Returns those of some pieces that one usual Case of the dataset `own` has, or half of those of another."""
    found: set[str] = set()
    for dataset_id, cases in usual.items() if pieces else ():
        counts: Counter[str] = Counter()
        for case in cases:
            counts.update(set().union(*(parts_in(leaf, pieces) for leaf in leaves_of(case.input))))
        least = 1 if dataset_id == own else SHARE * max(len(cases), FEW)
        found |= {piece for piece, count in counts.items() if count >= least}
    return found


def _attached(
    project: Project, dataset: Dataset, cases: Iterable[tuple[Case, Case]], seen: Collection[str]
) -> list[str]:
    """Returns the texts that only holdout Cases of a dataset have attached, from their beginning.

    Args:
        project: Whose dataset it is.
        dataset: It keeps the bytes.
        cases: Its holdout Cases, each as it is stored and as it was opened.
        seen: Digests of what usual Cases have attached.
    """
    texts: dict[str, str] = {}
    for stored, case in cases if dataset.kept_attachments else ():
        for file in case.attachments:
            if stored.sealed is not None and file.sha256 not in {*seen, *texts}:
                data = opened_attachment(project, dataset.id, key_of(project, stored.sealed), file.sha256, ATTACHED)
                texts[file.sha256] = "" if b"\0" in data else data.decode(errors="ignore")
    return [text for text in texts.values() if text]


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
