"""Says how a batch stands, in words and by what to do next; that infrastructure spoiled every attempt comes first."""

from __future__ import annotations

from operations.execution.keeper import Followed, leads_on
from storage import contents
from storage.errors import NextCall
from storage.project import Project
from storage.schema.evidence import EvidenceRecord

_NAMED = 20
"""How many Records to retry are written out at most; of more, the caller reads the ids."""
_REASON_CHARACTERS = 300


def told(project: Project, found: Followed) -> tuple[str, list[NextCall]]:
    """Returns the message about a batch, and what leads on from it.

    Raises:
        StoreDamaged: The batch's Records are not those that were sealed.
    """
    batch, done = found.batch, sum(found.counts.values())
    attempts, are = "attempt" if batch.slots == 1 else "attempts", "is" if done == 1 else "are"
    stands = f"{batch.id} is {batch.status}: {done} of {batch.slots} {attempts} {are} done."
    again = batch.slots - len(batch.case_ids) * batch.repeats
    if again > 0:
        stands += f" {again} of them {'takes' if again == 1 else 'take'} the place of others, which stay on record."
    spoiled = found.counts.get("infra_error", 0)
    if found.alive or batch.records_sha256 is None:
        return stands, leads_on(found)
    if not done:
        return " ".join([f"No attempt was made. {note}" for note in batch.notes[:1]] + [stands]), leads_on(found)
    if spoiled == done:
        return _spoiled(project, found, stands)
    failed = f" {spoiled} of them failed by infrastructure, which says nothing about the agent." if spoiled else ""
    return stands + failed, leads_on(found)


def _spoiled(project: Project, found: Followed, stands: str) -> tuple[str, list[NextCall]]:
    """Where nothing is known of the agent: the first cause, and how to go on once it is mended."""
    batch = found.batch
    records = contents.records(project, project.state(), batch.id)
    look = NextCall("read_record", {"record_id": records[0].id})
    calls = [_named(call, records) for call in leads_on(found) if call.tool != "store_assessment"]
    if len(records) == 1:
        what = f"The only attempt of {batch.id} failed by infrastructure and says nothing about the agent"
    else:
        what = f"All {len(records)} attempts of {batch.id} failed by infrastructure and say nothing about the agent"
    return f"{what}: {_reason(records[0])}. {_step(found, calls)} {stands}", [look, *calls]


def _step(found: Followed, calls: list[NextCall]) -> str:
    if found.successor_id is not None:
        return f"{found.successor_id} followed it."
    if any("continue_batch_id" in call.arguments for call in calls):
        return f"Mend that, then finish the batch: run_evaluation with continue_batch_id {found.batch.id}."
    return f"Mend that, then retry: run_evaluation with retry_batch_id {found.batch.id}."


def _named(call: NextCall, records: list[EvidenceRecord]) -> NextCall:
    """Fills in which Records a retry is for, where they are few."""
    if "retry_execution_ids" not in call.supply:
        return call
    retried = {record.execution.retry_of for record in records}
    ids = [record.id for record in records if record.id not in retried]
    if len(ids) > _NAMED:
        return call
    rest = {name: value for name, value in call.supply.items() if name != "retry_execution_ids"}
    return NextCall(call.tool, {**call.arguments, "retry_execution_ids": ids}, rest)


def _reason(record: EvidenceRecord) -> str:
    """What the first attempt failed by, in one line without its full stop; what the agent wrote is not repeated."""
    execution = record.execution
    said = execution.error or f"exit code {execution.exit_code} (its stderr is in {record.id})"
    whole = " ".join(said.split()).rstrip(".")
    return whole if len(whole) <= _REASON_CHARACTERS else f"{whole[:_REASON_CHARACTERS]}…"
