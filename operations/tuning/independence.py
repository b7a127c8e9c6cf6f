"""Whether the repeats of a stochastic agent look like runs of their own, or as if a cache had answered some of them.

Two signs: one response id in two Records, and answers that repeat an earlier answer of their Case more often than
chance explains. For the second, an answer of L characters is given at most the chance

    q = min(1, (answers before it) * 2 ** (-BITS * max(0, L - FREE)))

of coinciding with one before it: the first FREE characters may be a label or a number that any run would give, and
each character more carries at least BITS bits of the agent's own choice, which is far below what sampled text has.
With l the sum of all q and k coincidences found, the chance of k or more is at most exp(k - l - k ln(k / l)) for k > l
(Chernoff's bound for a sum of independent events: Mitzenmacher and Upfal, Probability and Computing, theorem 4.4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage.frames import digest
from storage.schema.rounds import Repeatability

FREE = 64
"""Characters of an answer that may be the same in every run."""
BITS = 0.02
"""The least information of each further character, in bits."""
CHANCE = 1e-4
"""Coincidences that are less likely than this are reported."""

_NAMES = ("response_id", "gen_ai.response.id")
_SHOWN = 5
_DEPTH = 4


@dataclass(frozen=True)
class Answer:
    """What has to be known of one Record."""

    record_id: str
    case_id: str
    digest: str | None
    """Of the output; None where there is none."""
    length: int
    response_ids: frozenset[str]
    retry_of: str | None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Answer:
        """Returns what matters of a stored Record."""
        completed = record["execution"]["status"] == "completed"
        output = record.get("output") if completed else None
        found: set[str] = set()
        for event in (*record.get("events", ()), *(record.get("loading_evidence") or ())):
            _collect(event, found, _DEPTH)
        return cls(
            record_id=record["id"],
            case_id=record["case_id"],
            digest=digest(output.encode("utf-8", "surrogatepass")) if output else None,
            length=len(output or ""),
            response_ids=frozenset(found),
            retry_of=record["execution"].get("retry_of"),
        )


def remarks(answers: Iterable[Answer], repeatability: Repeatability) -> tuple[str, ...]:
    """Returns sentences about repeats that are not independent; none for an agent that is declared deterministic.

    Identical answers say something only where the agent is declared stochastic; a response id that two Records share
    does also where nothing is known.
    """
    if repeatability == "deterministic":
        return ()
    known = list(answers)
    retried = {answer.retry_of for answer in known}
    known = [answer for answer in known if answer.record_id not in retried]
    found = _shared_ids(known)
    if repeatability == "stochastic":
        found += _coincidences(known)
    return tuple(found)


def chance_of(coincidences: int, expected: float) -> float:
    """Returns a bound of the chance of so many coincidences or more, where `expected` bounds their mean."""
    if coincidences <= expected:
        return 1.0
    if expected == 0:
        return 0.0
    return math.exp(coincidences - expected - coincidences * math.log(coincidences / expected))


def _shared_ids(answers: Sequence[Answer]) -> list[str]:
    first: dict[str, str] = {}
    shared: dict[str, list[str]] = {}
    for answer in answers:
        for name in sorted(answer.response_ids):
            if name in first:
                shared.setdefault(name, [first[name]]).append(answer.record_id)
            else:
                first[name] = answer.record_id
    if not shared:
        return []
    records = list(dict.fromkeys(r for ids in shared.values() for r in ids))
    ids = "1 response id is" if len(shared) == 1 else f"{len(shared)} response ids are"
    said = f"{ids} in more than one Record ({_listed(records)})"
    return [f"{said}: a cache answered, so these repeats are not independent."]


def _coincidences(answers: Sequence[Answer]) -> list[str]:
    expected, count = 0.0, 0
    seen: dict[str, list[str]] = {}
    cases: dict[str, None] = {}
    for answer in answers:
        if answer.digest is None:
            continue
        earlier = seen.setdefault(answer.case_id, [])
        if earlier:
            expected += min(1.0, len(earlier) * 2.0 ** (-BITS * max(0, answer.length - FREE)))
            if answer.digest in earlier:
                count += 1
                cases[answer.case_id] = None
        earlier.append(answer.digest)
    chance = chance_of(count, expected)
    if chance >= CHANCE:
        return []
    which = "1 answer is" if count == 1 else f"{count} answers are"
    said = f"{which} identical to an earlier one of their Case ({_listed(list(cases))})"
    why = f"chance explains {expected:.1f} (p < {max(chance, 1e-12):.1g})"
    return [f"{said}, where {why}: a cache may have answered, so the repeats may not be independent."]


def _collect(value: object, found: set[str], depth: int) -> None:
    """Gathers the response ids of one event, whatever it looks like."""
    if depth and isinstance(value, Mapping):
        for name, inner in value.items():
            if name in _NAMES and isinstance(inner, str) and inner:
                found.add(inner)
            else:
                _collect(inner, found, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for inner in value:
            _collect(inner, found, depth - 1)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
