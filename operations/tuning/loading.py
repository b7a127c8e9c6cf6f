"""Whether the Records of a batch prove that their agent loaded the components that a plan requires."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from operations import wording
from storage.frames import digest
from storage.schema.batches import Batch
from storage.schema.evidence import EvidenceRecord

_LOADED = frozenset({"loaded", "invoked"})
_COUNTED = frozenset({"completed", "agent_error"})
_DIGEST = re.compile("[0-9a-f]{64}")
_TOLD = 1_000
"""So many digests are told of one attempt, shared by its components."""


def unproven(
    batch: Batch, records: Iterable[EvidenceRecord], required: Sequence[str], case_ids: Collection[str]
) -> tuple[str, ...]:
    """Returns a sentence for each required component that a Record of these Cases does not prove to have loaded.

    Only attempts whose outcome counts have to: those that completed or ended by the agent's own error.
    """
    if not required:
        return ()
    observed = {str(c["component_id"]): c.get("sha256") for c in batch.components}
    counted = [r for r in records if r.case_id in case_ids and r.execution.status in _COUNTED and not _untold(r)]
    if not counted:
        return (f"No Record of {batch.id} that counts says what it loaded, which the plan wants proved",)
    found = []
    for component_id in required:
        content = observed.get(component_id)
        if content is None:
            found.append(f"{batch.id} did not observe the content of {component_id}, which each Record has to prove")
        elif lacking := [r.id for r in counted if not proves(r.loading_evidence or (), component_id, content)]:
            number = len(lacking)
            which = (
                f"{wording.counted(number, 'Record')} of {batch.id} {wording.either(number, 'does', 'do')} not prove"
            )
            found.append(f"{which} the loading of {component_id} as it was observed, such as {lacking[0]}")
    return tuple(found)


def _untold(record: EvidenceRecord) -> bool:
    """Whether a Record was sealed when seals did not tell in the clear what was loaded: the others speak for it."""
    return record.sealed is not None and record.loading_evidence is None


def in_the_clear(events: Iterable[Mapping[str, Any]], component_ids: Collection[str]) -> tuple[dict[str, Any], ...]:
    """Returns what loading evidence proves, without a word of the agent's own: known components and digests.

    For each component it has the digest of the folder that its events make up, and those that they name as loaded.
    `proves` says of the result what it says of `events`, but for a file beyond a component's share of `_TOLD`.
    """
    listed = list(events)
    each = max(1, _TOLD // max(1, len(component_ids)))
    return tuple(
        {"component_id": component_id, "state": "loaded", "fingerprint": fingerprint}
        for component_id in sorted(component_ids)
        for fingerprint in _shown([e for e in listed if e.get("component_id") == component_id])[:each]
    )


def _shown(own: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns what one component's events show as loaded: the digest of the folder first, which no file replaces."""
    loaded = {str(e.get("fingerprint")) for e in own if e.get("state") in _LOADED}
    files = _files(own) if loaded else {}
    whole = [_folder_digest(files)] if files else []
    return [*whole, *sorted(d for d in loaded - {*whole} if _DIGEST.fullmatch(d))]


def proves(events: Iterable[Mapping[str, Any]], component_id: str, content: str) -> bool:
    """Returns whether loading evidence shows a component of this content as loaded.

    One event with its digest does; so do the events of a folder's files, each with `path` and `fingerprint`, when
    together they are the folder that was observed and one of them was loaded.
    """
    own = [e for e in events if e.get("component_id") == component_id]
    loaded = [e for e in own if e.get("state") in _LOADED]
    if any(e.get("fingerprint") == content for e in loaded):
        return True
    files = _files(own)
    return bool(loaded) and bool(files) and _folder_digest(files) == content


def _files(own: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Returns path → digest of the files that a component's events name, loaded or not."""
    return {str(e["path"]): str(e.get("fingerprint")) for e in own if isinstance(e.get("path"), str)}


def _folder_digest(files: Mapping[str, str]) -> str:
    """Returns the digest by which a batch observes a folder of plain files: its own files come before its folders'."""
    order = sorted(files, key=lambda path: [(i < path.count("/"), part) for i, part in enumerate(path.split("/"))])
    return digest(b"".join(json.dumps([path, files[path]]).encode("ascii") + b"\n" for path in order))
