"""Holdout Cases and their attempts: sealed when they are stored, opened for work, and shown once a Round has run them.

A Round opens its holdout Cases when both sides of its final validation are sealed. Until then nothing that is shown may
have been made with `for_work`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from storage import contents
from storage.errors import AtkError, NextCall
from storage.files import StoreDamaged
from storage.projection import State
from storage.schema.batches import Batch
from storage.schema.datasets import Case
from storage.schema.evidence import EvidenceRecord
from storage.schema.rounds import Round
from storage.sealing import HoldoutKeyMissing, SealKey, key_id_of, load_key, made_or_known

if TYPE_CHECKING:
    from storage.project import Project

UNSEEN = "unseen until both final sides of a Round that runs it are sealed"
"""What stands in place of what is not shown."""
UNTOLD = "The Case is a holdout; a reason would tell what it holds."
"""The reason of every verdict that a rule gives on a holdout Case."""
_CASE = ("input", "expected", "initial_conditions", "attachments")
_RECORD = ("output", "stderr_tail", "loading_evidence", "events", "metric_sources")
SUPERVISOR, AGENT = "supervisor", "agent_sidecar"
"""Who measures where no collector does."""
_SIDES = 2
_READ = 1 << 16


@dataclass(kw_only=True, eq=False)
class HoldoutStaysUnseen(AtkError):
    """The call would show or use holdout Cases whose final validation has not been run on both sides."""

    message = (
        "{subject} {is_} of holdout Cases, which stay unseen until both final sides of their Round are sealed: "
        "{missing}. {instead}"
    )
    next_calls = (NextCall("get_status"),)

    subject: str
    missing: str
    instead: str
    is_: str = "is"


# ---- keys --------------------------------------------------------------------------------------------------------


def key_of(project: Project, sealed: str) -> SealKey:
    """Returns the key that something of this project was sealed with.

    Raises:
        HoldoutKeyMissing: It is not on this machine.
        HoldoutKeyUnusable: Its file is no key.
    """
    return load_key(project.state().project_id, key_id_of(sealed))


def new_key(project: Project) -> SealKey:
    """Returns the key that new holdout Cases of this project are sealed with, made at first need.

    Raises:
        HoldoutKeyUnusable: It cannot be made or read.
        HoldoutKeyMissing: Earlier ones were sealed with a key that is not here; one project has one key.
    """
    state = project.state()
    for dataset_id, dataset in state.objects.get("dataset", {}).items():
        if getattr(dataset, "usage_counts", {}).get("holdout"):
            sealed = next(c.sealed for c in contents.cases(project, state, dataset_id) if c.sealed)
            return key_of(project, sealed)
    return made_or_known(state.project_id)


# ---- sealing -----------------------------------------------------------------------------------------------------


def sealed_case(case: Case, key: SealKey) -> Case:
    """Returns a holdout Case as it is stored: who it is in clear, what it holds encrypted."""
    content = case.model_dump(mode="json", include=set(_CASE))
    fingerprint = key.digest("case", case.fingerprint)
    return case.model_copy(
        update={
            "input": None,
            "expected": None,
            "initial_conditions": None,
            "attachments": (),
            "fingerprint": fingerprint,
            "source_group_id": case.source_group_id or f"input-{input_digest(case.input, key)[:16]}",
            "sealed": key.seal(content, f"case {fingerprint}"),
            "sealed_attachments": tuple(dict.fromkeys(attachment_name(key, a.sha256) for a in case.attachments)),
        }
    )


def input_digest(value: Any, key: SealKey) -> str:  # noqa: ANN401 - JSON
    """Returns what two Cases of the same input share; it tells nothing without the key."""
    return key.digest("input", value)


def attachment_name(key: SealKey, sha256: str) -> str:
    """Returns the name under which an encrypted attachment is kept."""
    return key.digest("attachment", sha256)


def attachment_place(name: str) -> str:
    """Returns what an encrypted attachment is bound to."""
    return f"attachment {name}"


def sealed_record(
    record: EvidenceRecord,
    key: SealKey,
    *,
    whole: bool,
    collectors: Collection[str] = (),
    loaded: Sequence[dict[str, Any]] = (),
) -> EvidenceRecord:
    """Returns a Record of a holdout Case as it is stored: how the attempt went in clear, what it left encrypted.

    Args:
        record: As its attempt left it.
        key: The project's.
        whole: Whether the error is sealed as well: it may name an attachment.
        collectors: Who may be named as having measured a metric; any other name is the agent's own text.
        loaded: What may be told of the components that the attempt loaded.
    """
    content = record.model_dump(mode="json", include=set(_RECORD))
    known = {SUPERVISOR, AGENT, *collectors}
    sources = {name: source if source in known else AGENT for name, source in record.metric_sources.items()}
    execution = record.execution
    if whole and execution.error:
        content["error"] = execution.error
        hidden = f"The attempt could not be made; why is {UNSEEN}."
        execution = execution.model_copy(update={"error": hidden})
    return record.model_copy(
        update={
            "output": None,
            "stderr_tail": "",
            "loading_evidence": tuple(loaded),
            "events": (),
            "metric_sources": sources,
            "execution": execution,
            "sealed": key.seal(content, f"record {record.id}"),
        }
    )


def resealed(record: dict[str, Any], old_id: str, project: Project) -> dict[str, Any]:
    """Returns a sealed Record that got another id, bound to that."""
    if not record.get("sealed"):
        return record
    key = key_of(project, record["sealed"])
    return {**record, "sealed": key.seal(key.open(record["sealed"], f"record {old_id}"), f"record {record['id']}")}


# ---- opening -----------------------------------------------------------------------------------------------------


def opened_case(case: Mapping[str, Any], key: SealKey) -> dict[str, Any]:
    """Returns the plain value of a stored Case, whole.

    Raises:
        SealBroken: Its bytes are not those that were sealed.
    """
    if not case.get("sealed"):
        return dict(case)
    return {**case, **key.open(case["sealed"], f"case {case['fingerprint']}"), "sealed": None}


def opened_record(record: Mapping[str, Any], key: SealKey) -> dict[str, Any]:
    """Returns the plain value of a stored Record, whole.

    Raises:
        SealBroken: Its bytes are not those that were sealed.
    """
    if not record.get("sealed"):
        return dict(record)
    content = key.open(record["sealed"], f"record {record['id']}")
    error = content.pop("error", record["execution"]["error"])
    return {**record, **content, "execution": {**record["execution"], "error": error}, "sealed": None}


def opened_attachment(project: Project, dataset_id: str, key: SealKey, sha256: str, limit: int) -> bytes:
    """Returns the first bytes of an attachment of a holdout Case, to hold something against. They must not be shown.

    Args:
        project: Whose dataset it is.
        dataset_id: The dataset that keeps it.
        key: What it was sealed with.
        sha256: Of the attachment as it was.
        limit: How many bytes at the most.

    Raises:
        SealBroken: Its bytes are not those that were sealed.
        StoreDamaged: It is missing.
    """
    name = attachment_name(key, sha256)
    path = f"datasets/{dataset_id}/attachments/{name}"
    try:
        handle = project.store.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise StoreDamaged(path=project.store.full(path), reason="is missing") from None
    found = b""
    with os.fdopen(handle, "rb") as file:
        for piece in key.open_bytes(iter(lambda: file.read(_READ), b""), attachment_place(name)):
            found += piece
            if len(found) >= limit:
                break
    return found[:limit]


def cases_for_work(project: Project, cases: Iterable[Case]) -> Iterator[Case]:
    """Yields Cases whole, for a judge that runs here or an attempt. What comes of them must not be shown.

    Raises:
        HoldoutKeyMissing: One is sealed with a key that is not here.
        SealBroken: Its bytes are not those that were sealed.
    """
    for case in cases:
        if case.sealed is None:
            yield case
        else:
            yield Case.model_validate(opened_case(case.model_dump(mode="json"), key_of(project, case.sealed)))


def records_for_work(project: Project, records: Iterable[EvidenceRecord]) -> Iterator[EvidenceRecord]:
    """Yields Records whole, for a judge that runs here. What comes of them must not be shown.

    Raises:
        HoldoutKeyMissing: One is sealed with a key that is not here.
        SealBroken: Its bytes are not those that were sealed.
    """
    for record in records:
        if record.sealed is None:
            yield record
        else:
            key = key_of(project, record.sealed)
            yield EvidenceRecord.model_validate(opened_record(record.model_dump(mode="json"), key))


# ---- showing -----------------------------------------------------------------------------------------------------


def final_sides(value: Round, batches: Iterable[Batch]) -> dict[str, str]:
    """Returns the Revisions of a Round whose final run is sealed, each with its batch.

    A rollback changes the current Revision, but not that its holdout was run: so any Revision counts.
    """
    return {b.revision_id: b.id for b in batches if (b.round_id, b.phase, b.status) == (value.id, "final", "sealed")}


def is_opened(value: Round, batches: Iterable[Batch]) -> bool:
    """Whether both final sides of a Round are sealed, so that its holdout Cases may be seen and have to be judged.

    A Round that validates a repair made elsewhere has one side.
    """
    sides = final_sides(value, batches)
    return value.baseline_revision_id in sides and len(sides) >= (_SIDES if value.external_fix is None else 1)


def opened_fingerprints(state: State) -> frozenset[str]:
    """Returns the fingerprints of the holdout Cases that may be seen."""
    batches = state.all(Batch)
    found: set[str] = set()
    for value in state.all(Round):
        if value.plan is not None and value.plan.holdout_case_ids and is_opened(value, batches):
            found |= {value.plan.case_fingerprints[c] for c in value.plan.holdout_case_ids}
    return frozenset(found)


class Showing:
    """What of stored Cases and Records may be shown in a state of the project."""

    def __init__(self, project: Project, state: State) -> None:
        self._project = project
        self._opened = opened_fingerprints(state)
        self._keys: dict[str, SealKey | None] = {}

    def hidden(self, fingerprint: str, sealed: str | None) -> bool:
        """Whether something sealed has to stay unseen."""
        return sealed is not None and fingerprint not in self._opened

    def case(self, stored: Mapping[str, Any], *, needs_key: bool = False) -> dict[str, Any]:
        """Returns a stored Case as it may be shown; one that is sealed says so in place of what it holds.

        Raises:
            HoldoutKeyMissing: With `needs_key`, it may be shown and its key is not here.
            SealBroken: Its bytes are not those that were sealed.
        """
        return self._shown(stored, str(stored["fingerprint"]), needs_key=needs_key)

    def record(self, stored: Mapping[str, Any], *, needs_key: bool = False) -> dict[str, Any]:
        """Returns a stored Record as it may be shown. Raises as `case` does."""
        return self._shown(stored, str(stored.get("case_fingerprint")), needs_key=needs_key)

    def _shown(self, stored: Mapping[str, Any], fingerprint: str, *, needs_key: bool) -> dict[str, Any]:
        sealed = stored.get("sealed")
        if not sealed:
            return _without_seals(stored)
        key = None if self.hidden(fingerprint, sealed) else self._key(sealed, needs_key=needs_key)
        if key is None:
            locked = f"open, and its key {key_id_of(sealed)} is not here" if fingerprint in self._opened else UNSEEN
            return {**_without_seals(stored), "sealed": locked}
        return _without_seals(opened_record(stored, key) if "execution" in stored else opened_case(stored, key))

    def _key(self, sealed: str, *, needs_key: bool) -> SealKey | None:
        name = key_id_of(sealed)
        if name not in self._keys or (needs_key and self._keys[name] is None):
            try:
                self._keys[name] = key_of(self._project, sealed)
            except HoldoutKeyMissing:
                if needs_key:
                    raise
                self._keys[name] = None
        return self._keys[name]


def _without_seals(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stored.items() if name not in ("sealed", "sealed_attachments")}


def require_opened(state: State, batch: Batch, *, subject: str, instead: str) -> None:
    """Refuses a batch that has attempts at holdout Cases which are still unseen.

    Raises:
        HoldoutStaysUnseen: It names what is missing.
    """
    value = state.find(Round, batch.round_id)
    if not batch.holdout_case_ids or value is None or is_opened(value, state.all(Batch)):
        return
    done = final_sides(value, state.all(Batch))
    sides = (value.baseline_revision_id, value.current_revision_id)
    missing = [f"the final side of {revision} is not" for revision in sides if revision not in done]
    raise HoldoutStaysUnseen(subject=subject, missing=" and ".join(missing) or "no side is", instead=instead)
