"""Whether the Records of a batch prove that their agent loaded the components that a plan requires."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from storage.frames import digest
from storage.schema.batches import Batch
from storage.schema.evidence import EvidenceRecord

_LOADED = frozenset({"loaded", "invoked"})
_COUNTED = frozenset({"completed", "agent_error"})


def unproven(
    batch: Batch, records: Iterable[EvidenceRecord], required: Sequence[str], case_ids: Collection[str]
) -> tuple[str, ...]:
    """Returns a sentence for each required component that a Record of these Cases does not prove to have loaded.

    Only attempts whose outcome counts have to: those that completed or ended by the agent's own error.
    """
    if not required:
        return ()
    observed = {str(c["component_id"]): c.get("sha256") for c in batch.components}
    # Those of holdout Cases are sealed; the others of their batch, which ran in the same way, speak for them.
    counted = [r for r in records if r.case_id in case_ids and r.execution.status in _COUNTED and r.sealed is None]
    found = []
    for component_id in required:
        content = observed.get(component_id)
        if content is None:
            found.append(f"{batch.id} did not observe the content of {component_id}, which each Record has to prove")
        elif lacking := [r.id for r in counted if not proves(r.loading_evidence or (), component_id, content)]:
            found.append(
                f"{len(lacking)} Records of {batch.id} do not prove that they loaded {component_id} as it was "
                f"observed, such as {lacking[0]}"
            )
    return tuple(found)


def proves(events: Iterable[Mapping[str, Any]], component_id: str, content: str) -> bool:
    """Returns whether loading evidence shows a component of this content as loaded.

    One event with its digest does; so do the events of a folder's files, each with `path` and `fingerprint`, when
    together they are the folder that was observed and one of them was loaded.
    """
    own = [e for e in events if e.get("component_id") == component_id]
    loaded = [e for e in own if e.get("state") in _LOADED]
    if any(e.get("fingerprint") == content for e in loaded):
        return True
    files = {str(e["path"]): str(e.get("fingerprint")) for e in own if isinstance(e.get("path"), str)}
    return bool(loaded) and bool(files) and _folder_digest(files) == content


def _folder_digest(files: Mapping[str, str]) -> str:
    """Returns the digest by which a batch observes a folder of plain files: its own files come before its folders'."""
    order = sorted(files, key=lambda path: [(i < path.count("/"), part) for i, part in enumerate(path.split("/"))])
    return digest(b"".join(json.dumps([path, files[path]]).encode("ascii") + b"\n" for path in order))
