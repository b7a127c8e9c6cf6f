"""Deals both sides of a comparison to a judge who is not to know which side an output is from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operations.judges._judge import Evidence, RuleSettings, before_comparing
from storage import contents
from storage.frames import canonical
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Deal, VerdictRow
from storage.schema.evidence import EvidenceRecord
from storage.schema.rounds import Round

ITEMS = "items.jsonl"
"""The file of a deal: its seed, then its items."""

DEALS = "deals"


@dataclass(frozen=True)
class Item:
    """What is judged once: one Case's output, and every Record that has it."""

    n: int
    record_ids: tuple[str, ...]

    def token(self, deal_id: str) -> str:
        """Returns the name under which it is dealt; it says nothing of the Records."""
        return f"{deal_id}.{self.n}"


@dataclass(frozen=True)
class Dealt:
    """A deal as it lies in the store."""

    seed: int
    items: tuple[Item, ...]

    def lines(self) -> Iterator[bytes]:
        """Yields the lines of its file."""
        yield canonical({"seed": self.seed}) + b"\n"
        for item in self.items:
            yield canonical({"n": item.n, "record_ids": list(item.record_ids)}) + b"\n"


def dealt(records: Iterable[EvidenceRecord], seed: int, *, timeout_is_failure: bool) -> Dealt:
    """Returns the items of some Records: one for each Case and output, shuffled by the seed.

    Records whose verdict how they ended decides are left out. Records of holdout Cases are given as they are stored.
    """
    alike: dict[tuple[object, ...], list[str]] = {}
    for record in records:
        if settled(record, timeout_is_failure=timeout_is_failure) is None:
            # What is sealed differs between any two: it is dealt by itself, which can be checked without its key.
            key = (record.case_id, record.output, record.sealed, record.execution.stdout_truncated)
            alike.setdefault(key, []).append(record.id)
    groups = [tuple(sorted(ids, key=_place)) for ids in alike.values()]
    groups.sort(key=lambda ids: hashlib.sha256(f"{seed}:{','.join(ids)}".encode()).digest())
    return Dealt(seed, tuple(Item(n, ids) for n, ids in enumerate(groups, 1)))


def settled(record: EvidenceRecord, *, timeout_is_failure: bool) -> dict[str, str] | None:
    """Returns the row that how a Record ended decides, or None where its output is to be judged."""
    found = before_comparing(
        Evidence(expected=None, expected_present=True, output=_output(record), status=record.execution.status),
        RuleSettings(),
        timeout_is_failure=timeout_is_failure,
    )
    if found is None:
        return None
    reason = found.reason if found.validity != "valid" else ""
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "validity": found.validity,
        "validity_reason": reason,
    }


def _output(record: EvidenceRecord) -> str | None:
    """Returns the output, or something in its place where there is one that is sealed."""
    sealed = record.sealed is not None and record.output_status in ("value", "empty")
    return "" if sealed else record.output


def read(project: Project, state: State, deal: Deal) -> Dealt:
    """Returns a stored deal.

    Raises:
        StoreDamaged: Its file is not what was recorded.
    """
    first, *rest = (json.loads(line) for line in contents.lines(project, state, f"{DEALS}/{deal.id}/{ITEMS}"))
    return Dealt(first["seed"], tuple(Item(line["n"], tuple(line["record_ids"])) for line in rest))


def is_timeout_failure(state: State, deal: Deal) -> bool:
    """Returns whether the plan under which the sides were run counts a timeout as a failure."""
    plan = state.get(Round, deal.round_id).plan
    return bool(plan and plan.timeout_is_failure)


def outstanding(deals: Iterable[Deal], like: Mapping[str, object]) -> Deal | None:
    """Returns the newest deal that has the fields of `like` and was not judged."""
    found = None
    for deal in deals:
        if not deal.assessment_ids and all(getattr(deal, name) == value for name, value in like.items()):
            found = deal
    return found


class Verdicts:
    """The verdicts on dealt items, given back to the Records that the items stand for."""

    def __init__(self, deal: Deal, found: Dealt, rows: Iterable[VerdictRow], *, timeout_is_failure: bool) -> None:
        """`rows` are whole: one for each item and dimension, with the item's token as `record_id`."""
        self._late = timeout_is_failure
        self._of_record = {record_id: item.token(deal.id) for item in found.items for record_id in item.record_ids}
        self._of_item: dict[str, list[VerdictRow]] = {}
        for row in rows:
            self._of_item.setdefault(row.record_id, []).append(row)

    def rows(self, records: Iterable[EvidenceRecord], dimensions: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yields the rows of one side: an item's verdict for each of its Records, and what was settled."""
        for record in records:
            token = self._of_record.get(record.id)
            if token is None:
                ended = settled(record, timeout_is_failure=self._late)
                for dimension in dimensions:
                    yield {**(ended or {}), "record_id": record.id, "dimension": dimension}
                continue
            for row in self._of_item[token]:
                said = row.model_dump(mode="json", exclude={"evidence_refs"})
                yield {**said, "record_id": record.id}


def _place(record_id: str) -> tuple[str, int]:
    batch_id, _, digits = record_id.rpartition(".")
    return batch_id, int(digits)
