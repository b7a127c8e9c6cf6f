"""Whether a lesson may claim what it claims, and whether it holds where the target is now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from storage.errors import AtkError, NextCall
from storage.schema.knowledge import Identities, Knowledge
from storage.schema.rounds import Plan
from storage.schema.validations import Validation

Applies = Literal["applies", "unknown", "not"]


@dataclass(kw_only=True, eq=False)
class KnowledgeUnsupported(AtkError):
    """A lesson claims more than what it names carries."""

    message = "A lesson that is {status} needs {needed}; given: {given}. {instead}"
    next_calls = (NextCall("store_knowledge", supply={"knowledge": "with what carries it, or as provisional"}),)

    status: str
    needed: str
    given: list[str]
    instead: str


@dataclass(kw_only=True, eq=False)
class KnowledgeRefUnknown(AtkError):
    """A lesson names what is not stored, or names it twice."""

    message = "knowledge.{field} names {given}, which {problem}. Name stored objects by their ids, each once."
    next_calls = (NextCall("get_status"),)

    field: str
    given: list[str]
    problem: str


@dataclass(frozen=True)
class Compared:
    """Whether a lesson holds, and every reason for that."""

    applies: Applies
    reasons: tuple[str, ...]


def check_claim(value: Knowledge, validations: Sequence[Validation]) -> None:
    """Refuses a lesson that claims what nothing it names shows.

    Raises:
        KnowledgeUnsupported: It is to be validated without a passing Validation, or contradicted by nothing.
    """
    if value.status == "validated_in_scope" and not any(v.result == "pass" for v in validations):
        raise KnowledgeUnsupported(
            status=value.status,
            needed="a Validation that passed in validation_ids",
            given=[f"{v.id} ({v.result})" for v in validations],
            instead="Evidence alone makes it provisional: nobody has compared yet.",
        )
    if value.status == "contradicted" and not value.contrary_refs:
        raise KnowledgeUnsupported(
            status=value.status,
            needed="the Records that contradict it in contrary_refs",
            given=[],
            instead="A lesson that is only not needed any more is retired.",
        )


def check_identities(value: Knowledge, shown: Identities) -> None:
    """Refuses a validated lesson that leaves out, or names otherwise, what its newest Validation was run under.

    Raises:
        KnowledgeUnsupported: It would be said to apply where nothing shows it.
    """
    if value.status != "validated_in_scope":
        return
    was = value.identities
    left = [n for n, found in shown.component_hashes.items() if was.component_hashes.get(n) != found]
    left += ["judger_hash"] if shown.judger_hash and was.judger_hash != shown.judger_hash else []
    if left:
        raise KnowledgeUnsupported(
            status=value.status,
            needed=f"the identities under which its newest Validation was run, {', '.join(left[:8])} among them",
            given=sorted(was.component_hashes)[:8],
            instead="Leave component_hashes and judger_hash out to take them over; further ones may be named.",
        )


def require_known(field: str, given: Sequence[str], known: Iterable[str]) -> None:
    """Refuses references that name nothing, or one thing twice.

    Raises:
        KnowledgeRefUnknown: It names them.
    """
    stored = set(known)
    if strangers := [name for name in given if name not in stored]:
        raise KnowledgeRefUnknown(field=field, given=strangers[:8], problem="is not stored here")
    if twice := sorted({name for name in given if given.count(name) > 1}):
        raise KnowledgeRefUnknown(field=field, given=twice[:8], problem="is there twice")


def observed(
    components: Iterable[Mapping[str, Any]], contracts: Mapping[str, str], judger_hash: str | None
) -> Identities:
    """Returns the identities that a batch was run under.

    Args:
        components: Each as a batch observed it; one without digest and version is unknown and left out.
        contracts: Source namespace → digest.
        judger_hash: The judger's digest, where one is known.
    """
    hashes = {str(c["component_id"]): c.get("sha256") or c.get("version") for c in components if c.get("component_id")}
    known = {name: str(found) for name, found in hashes.items() if found}
    return Identities(component_hashes=known, contract_hashes=dict(contracts), judger_hash=judger_hash)


def groups_of(plan: Plan, validation: Validation) -> tuple[str, ...]:
    """Returns the source groups whose Cases a Validation compared."""
    unseen = set() if validation.mode == "final" else set(plan.holdout_case_ids)
    ran = [c for c in plan.case_ids if c not in unseen]
    return tuple(dict.fromkeys(plan.source_groups[c] for c in ran if c in plan.source_groups))


def compare(value: Knowledge, now: Identities, scope: str | None = None) -> Compared:
    """Returns whether a lesson applies under the identities of now.

    It applies where it was validated and all that it was shown under is the same. Where something differs, it does not
    apply as it was shown; where something is not known, or it was never validated, nobody can say.

    Args:
        value: The lesson.
        now: What the target, its sources and its judge are now.
        scope: The scope in which it is to be used, where the caller names one.
    """
    if value.status in ("contradicted", "retired"):
        return Compared("not", (f"It is {value.status}.",))
    was = value.identities
    differing, unknown = [], []
    pairs = [
        *(
            (f"the component {name}", found, now.component_hashes.get(name))
            for name, found in was.component_hashes.items()
        ),
        *(
            (f"the contract of {name}", found, now.contract_hashes.get(name))
            for name, found in was.contract_hashes.items()
        ),
        *([("the judger", was.judger_hash, now.judger_hash)] if was.judger_hash else []),
    ]
    for name, before, after in pairs:
        if after is None:
            unknown.append(f"What {name} is now is not known.")
        elif after != before:
            differing.append(f"{name[:1].upper()}{name[1:]} is another one than it was shown under.")
    if differing:
        return Compared("not", (*differing, "It has to be validated again."))
    if not pairs:
        unknown.append("It names no identity that it was shown under.")
    if value.status != "validated_in_scope":
        unknown.append("It is provisional: no Validation shows it.")
    if scope is not None and scope.strip() != value.applicability.strip():
        unknown.append(f"Its scope is worded otherwise ({value.applicability}); whether yours lies in it is not known.")
    if unknown:
        return Compared("unknown", tuple(unknown))
    return Compared("applies", (f"It was validated, and all {len(pairs)} identities are the same.",))
