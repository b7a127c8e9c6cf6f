"""Sealed batches put into the store as records, for tests that need what runs leave and not the runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operations.tuning.identity import runner_digest
from storage import contents
from storage.frames import canonical
from storage.schema.batches import Batch
from storage.schema.evidence import EvidenceRecord, Execution
from storage.schema.projects import Project
from storage.schema.rounds import Revision
from tests.operations.catalog.stages import Staged
from tests.support.projects import AT, call_of
from tests.support.rounds import Answered

ENDED = Execution(
    status="completed", exit_code=0, signal=None, end="exited", error=None, started_at=AT, ended_at=AT,
    duration_seconds=0.1, leftovers_killed=0, stdout_bytes=1, stderr_bytes=0, stdout_truncated=False,
    stderr_truncated=False,
)  # fmt: skip


def store_batch(
    target: Staged,
    revision_id: str,
    answer: Callable[[str, int], str],
    *,
    repeats: int = 1,
    round_id: str | None = None,
    phase: str = "incremental",
    record: Callable[[EvidenceRecord], EvidenceRecord] = lambda made: made,
    **fields: Any,
) -> str:
    """Stores a sealed batch in which each Case was answered with `answer(case_id, repeat)`. Returns its id.

    `record` may change each Record before it is stored; `fields` are those of the Batch that differ.
    """
    project = target.project
    with project.transaction(call_of("run_evaluation")) as tx, project.staging("evidence") as staging:
        batch_id = tx.new_id("batch")
        cases = contents.cases(project, tx.state, target.dataset_id)
        slots = [(case, repeat) for repeat in range(1, repeats + 1) for case in cases]
        records = [
            EvidenceRecord(
                id=f"{batch_id}.{n}", n=n, case_id=case.id, case_fingerprint=case.fingerprint, repeat=repeat,
                output=answer(case.id, repeat), output_status="value", execution=ENDED,
            )
            for n, (case, repeat) in enumerate(slots, 1)
        ]  # fmt: skip
        lines = (canonical(record(made).model_dump(mode="json")) + b"\n" for made in records)
        stored = staging.write("records.jsonl", lines)
        tx.place(staging, f"evidence/{batch_id}")
        configured = tx.state.all(Project)[0]
        revision = tx.state.find(Revision, revision_id)
        usual = Batch(
            id=batch_id, status="sealed", phase=phase, dataset_id=target.dataset_id, round_id=round_id,
            revision_id=revision_id, commit=revision.commit if revision else target.head, tree="0" * 40,
            case_ids=tuple(case.id for case in cases), repeats=repeats, slots=len(slots), concurrency=2,
            timeout_seconds=60, run_config_digest=configured.run_config_digest,
            runner_digest=runner_digest(configured), started_at=AT, started_record=tx.number,
            counts={"completed": len(slots)}, records_sha256=stored.sha256, records_bytes=stored.size,
        )  # fmt: skip
        tx.put(usual.model_copy(update=fields))
        tx.commit(Answered())
    return batch_id
