"""Makes Cases of the Records of a batch: each keeps where it came from, and what is unknown is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from operations.importers import _record_facts as facts
from operations.importers._cases import MAX_ID, USAGES, Assign, fingerprint
from operations.importers._cases_split import group_key
from operations.importers._record_facts import UNKNOWN
from operations.importers.batches import Evidence
from operations.wording import counted
from storage import contents
from storage.errors import AtkError, NextCall
from storage.masking import has_mask
from storage.schema.datasets import Case, CaseOrigin, CaseSource, Usage

GroupBy = Literal["session", "user", "trace"]
IDENTITY = ("id", "input", "expected_present", "expected", "usage", "source_group_id", "initial_conditions")
"""What a Case's fingerprint is taken of, besides its attachments."""

NAMED = 10
"""Records that a refusal or a warning names."""


@dataclass(kw_only=True, eq=False)
class RecordInputUnknown(AtkError):
    """A Record does not say what was asked, so there is nothing that an agent could be given."""

    message = (
        "Records that do not say what the input was: {count}, such as {records}. Nothing was stored. Import them with "
        "a mapping that says where the input is, take other Records, or set skip_unknown_inputs to leave these out."
    )
    next_calls = (
        NextCall("store_dataset", {"skip_unknown_inputs": True}, {"selection_id": "or batch_id: the same Records"}),
        NextCall("find_records", {"batch_id": "{batch_id}"}),
    )

    batch_id: str
    count: int
    records: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class RecordsDisagree(AtkError):
    """Two Records of one Case say different things of it."""

    message = (
        "{record_id} and {first_record_id} are both of the Case {case_id!r}, and their {fields} differ. Nothing was "
        "stored. Take one of them."
    )
    next_calls = (
        NextCall("read_record", {"record_id": "{record_id}"}),
        NextCall("read_record", {"record_id": "{first_record_id}"}),
    )

    case_id: str
    record_id: str
    first_record_id: str
    fields: tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class RecordsUnknown(AtkError):
    """A batch has no Records of the given ids."""

    message = "{batch_id} has no Records {given}. Records are named as find_records names them."
    next_calls = (NextCall("find_records", {"batch_id": "{batch_id}"}),)

    batch_id: str
    given: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which Records are to become Cases, and how."""

    numbers: Collection[int] | None = None
    """None for all of them."""
    group_by: GroupBy | None = None
    """What the source group is. None: the session where it is known."""
    expected_score: str | None = None
    """Name of the correction score whose value is the expected answer."""
    skip_unknown: bool = False
    """Whether Records of unknown input are left out instead of refused."""
    exposed_by: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The number of a Record → what looked at it."""


class RecordCases:
    """The Cases of some Records. Iterate once; the other members are complete when iteration has ended."""

    def __init__(self, evidence: Evidence, wanted: Wanted, assign: Assign | None = None) -> None:
        """Keeps what is wanted; nothing is read yet."""
        self._evidence = evidence
        self._wanted = wanted
        self._assign = assign
        self._cases: dict[str, Case] = {}
        self._made: dict[str, tuple[dict[str, str], str]] = {}
        self.usage_counts: dict[Usage, int] = dict.fromkeys(USAGES, 0)
        self.case_count = 0
        self.attachment_bytes = 0
        self.merged = 0
        """Records beyond the first of the same Case."""
        self.unknown: list[str] = []
        """Records of unknown input, each with the status that its input has."""
        self.unknown_count = 0
        self.masked: list[str] = []
        """Records whose input holds a mask."""
        self.masked_count = 0
        self.masked_expected = 0
        self.unverified = 0
        self.without_correction = 0
        self.without_group = 0
        self.exposed = 0

    @property
    def mapping(self) -> dict[str, str]:
        """Where each field of a Case was read from."""
        found = {"input": "record.input"}
        name = self._wanted.expected_score
        return {**found, "expected": f"score.{name}" if name else "record.expected"}

    def __iter__(self) -> Iterator[Case]:
        """Yields the Cases in the order of their Records.

        Raises:
            RecordInputUnknown: At the end, where a Record does not say its input and is not to be left out.
            RecordsDisagree: Two Records of one Case differ in its content.
            RecordsUnknown: At the end, where a wanted number is none of the batch's.
            StoreDamaged: The evidence is not what was recorded.
        """
        evidence, numbers = self._evidence, self._wanted.numbers
        if not evidence.imported:
            dataset_id = getattr(evidence.batch, "dataset_id", "")
            self._cases = {case.id: case for case in contents.cases(evidence.project, evidence.state, dataset_id)}
        met = 0
        for record in evidence.records(numbers):
            met += 1
            case = self._case(record) if evidence.imported else self._of_run(record)
            if case is None or not self._is_new(case, record["id"]):
                continue
            self._count(case)
            yield case
        if numbers is not None and met < len(set(numbers)):
            self._refuse_strangers(set(numbers))
        if self.unknown_count and (not self._wanted.skip_unknown or not self.case_count):
            raise RecordInputUnknown(
                batch_id=evidence.batch.id, count=self.unknown_count, records=tuple(self.unknown[:5])
            )

    def warnings(self) -> list[str]:
        """Returns what the person should know, in sentences."""
        found = []
        if self.masked_count:
            found.append(
                f"{counted(self.masked_count, 'input')} with a mask, so that the agent will not see what was asked: "
                f"{_named(self.masked, self.masked_count)}."
            )
        if self.unknown_count:
            named = _named(self.unknown, self.unknown_count)
            found.append(f"{counted(self.unknown_count, 'Record')} left out, since the input is unknown: {named}.")
        if self.unverified:
            found.append(f"{counted(self.unverified, 'expected answer')} taken from a correction that nobody verified.")
        if self.masked_expected:
            found.append(
                f"{counted(self.masked_expected, 'expected answer')} with a mask, which no judge can compare with."
            )
        if self.without_correction:
            name = self._wanted.expected_score
            number = counted(self.without_correction, "Record")
            found.append(f"{number} without a single correction {name!r}: no expected answer.")
        if self.without_group:
            found.append(
                f"{counted(self.without_group, 'Case')} without a source group, since the Record names no such id."
            )
        if self.merged:
            found.append(f"{counted(self.merged, 'Record')} of a Case that another one gave already.")
        if self.exposed:
            found.append(
                f"{counted(self.exposed, 'Case')} made of Records that were judged or cited, and so seen already."
            )
        return found

    # -- one Case ------------------------------------------------------------------------------------------------------

    def _case(self, record: dict[str, Any]) -> Case | None:
        """Returns the Case of an imported Record, or None where its input is not known."""
        asked = record["input"]
        if asked["status"] not in ("value", "empty"):
            self._note_unknown(record, asked["status"])
            return None
        given = asked.get("value", "")
        present, expected, came_from = self._expected(record)
        group, group_by = self._group(record)
        content: dict[str, Any] = {
            "id": _case_id(record),
            "input": given,
            "expected_present": present,
            "expected": expected,
            "source_group_id": group,
            "initial_conditions": None,
        }
        content["usage"] = self._assign(group_key(group, content), None, given) if self._assign else "optimization"
        origin = CaseOrigin(
            **self._seen(record),
            namespace=record["source"]["namespace"],
            trace_id=record["source"].get("trace_id"),
            session_id=record["source"].get("session_id"),
            locator=next(iter(record.get("locators", ())), None),
            group_by=group_by,
            input_masked=any(has_mask(text) for text in facts.texts(given)),
            expected_from=came_from,
            expected_verified=False if came_from and came_from.startswith("score:") else None,
        )
        return Case(
            **content,
            attachments=(),
            source=CaseSource(path=self._evidence.batch.id, row=record["n"]),
            fingerprint=fingerprint(content),
            origin=origin,
        )

    def _note_unknown(self, record: dict[str, Any], status: str) -> None:
        self.unknown_count += 1
        if len(self.unknown) < NAMED:
            self.unknown.append(f"{record['id']} ({status})")

    def _of_run(self, record: dict[str, Any]) -> Case | None:
        """Returns the Case that an attempt was made at, as it was given to the agent, or None for a blind one."""
        case = self._cases[record["case_id"]]
        if case.usage == "holdout":
            self._note_unknown(record, "holdout")
            return None
        content = case.model_dump(mode="json", include=set(IDENTITY))
        if self._assign is not None:
            named = [file.sha256 for file in case.attachments]
            given = case.usage if case.usage != "optimization" else None
            key = group_key(case.source_group_id, {**content, "attachments": named})
            content["usage"] = self._assign(key, given, case.input)
        return case.model_copy(
            update={
                "usage": content["usage"],
                "source": CaseSource(path=self._evidence.batch.id, row=max(1, record["n"])),
                "fingerprint": fingerprint(content, case.attachments),
                "origin": CaseOrigin(**self._seen(record)),
            }
        )

    def _seen(self, record: dict[str, Any]) -> dict[str, Any]:
        return {
            "batch_id": self._evidence.batch.id,
            "record_id": record["id"],
            "exposed_by": self._wanted.exposed_by.get(record["n"], ()),
        }

    def _expected(self, record: dict[str, Any]) -> tuple[bool, Any, str | None]:
        """Returns whether there is an expected answer, the answer, and where it came from."""
        name = self._wanted.expected_score
        if name is None:
            found = record.get("expected") or {}
            known = found.get("status") == "value"
            return known, found.get("value") if known else None, "record" if known else None
        said = [s["value"] for s in facts.scores(record, name) if s["type"] == "correction" and s["status"] == "value"]
        if len(set(map(str, said))) != 1:
            self.without_correction += 1
            return False, None, None
        return True, said[0], f"score:{name}"

    def _group(self, record: dict[str, Any]) -> tuple[str | None, GroupBy | None]:
        by = self._wanted.group_by or "session"
        found = facts.source(record, f"{by}_id")
        if found is UNKNOWN:
            self.without_group += 1
            return None, None
        return str(found), by

    # -- all of them ---------------------------------------------------------------------------------------------------

    def _is_new(self, case: Case, record_id: str) -> bool:
        """Whether no Record gave this Case before."""
        content = case.model_dump(mode="json", include={"input", "expected_present", "expected", "source_group_id"})
        parts = {name: fingerprint({name: value}) for name, value in content.items()}
        if case.id not in self._made:
            self._made[case.id] = parts, record_id
            return True
        first, first_record = self._made[case.id]
        if differing := tuple(name for name in parts if parts[name] != first[name]):
            raise RecordsDisagree(case_id=case.id, record_id=record_id, first_record_id=first_record, fields=differing)
        self.merged += 1
        return False

    def _count(self, case: Case) -> None:
        self.case_count += 1
        self.usage_counts[case.usage] += 1
        self.attachment_bytes += sum(file.bytes for file in case.attachments)
        origin = case.origin
        if origin is None:
            return
        self.exposed += bool(origin.exposed_by)
        self.unverified += origin.expected_verified is False
        self.masked_expected += case.expected_present and any(has_mask(text) for text in facts.texts(case.expected))
        if origin.input_masked:
            self.masked_count += 1
            if len(self.masked) < NAMED:
                self.masked.append(origin.record_id)

    def _refuse_strangers(self, numbers: set[int]) -> None:
        known = {record["n"] for record in self._evidence.records(numbers)}
        batch_id = self._evidence.batch.id
        given = tuple(f"{batch_id}.{n}" for n in sorted(numbers - known)[:NAMED])
        raise RecordsUnknown(batch_id=batch_id, given=given)


def _case_id(record: dict[str, Any]) -> str:
    """Returns the Record's Case, else its trace, else its own id: the first that can be a Case's id."""
    for given in (record.get("case_id"), record["source"].get("trace_id")):
        if given and len(given) <= MAX_ID and given.isprintable() and given.strip():
            return str(given)
    return str(record["id"])


def _named(records: list[str], count: int) -> str:
    return ", ".join(records) + (f" and {count - len(records)} more" if count > len(records) else "")
