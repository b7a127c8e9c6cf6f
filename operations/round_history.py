"""Follows the Rounds of a project through its journal, for `atk verify`: each step is one that the rules allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from operations.tuning import budget
from operations.tuning.lifecycle import FOLLOWS
from storage.projection import State
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.rounds import ACTIVE, CLOSED, Round
from storage.verification import Finding
from storage.views import place

Raw = Mapping[str, Mapping[str, Any]]
"""Round id → the Round as a journal record has it."""


@dataclass
class RoundHistory:
    """How the Rounds stood after the records that were followed so far."""

    statuses: dict[str, str] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)
    """Round id → the digest of its plan, from the record on that froze it."""
    announced: dict[int, Raw] = field(default_factory=dict)
    """Of intents that are open, by their number: what they make of Rounds counts once they are done."""

    def follow(self, body: Mapping[str, Any]) -> Iterator[Finding]:
        """Takes in one journal record; yields each step of a Round in it that no operation may take."""
        made: Raw = body.get("objects", {}).get("round", {})
        match body["kind"]:
            case "intent":
                self.announced[body["n"]] = made
                return
            case "undone":
                self.announced.pop(body["intent"], None)
                return
            case "done":
                made = self.announced.pop(body["intent"], {})
        for raw in made.values():
            yield from self._step(Round.model_validate(raw), body["n"])

    def _step(self, now: Round, number: int) -> Iterator[Finding]:
        before, frozen = self.statuses.get(now.id), self.plans.get(now.id)
        self.statuses[now.id] = now.status
        if now.plan_digest is not None:
            self.plans[now.id] = now.plan_digest
        if before is None and now.status != ("finalizing" if now.external_fix else "analysis_only"):
            yield Finding(place(now), f"begins as {now.status} (record {number})")
        if before not in (None, now.status) and now.status not in FOLLOWS.get(str(before), ()):
            yield Finding(place(now), f"goes from {before} to {now.status} (record {number}), which no operation does")
        if frozen is not None and now.plan_digest != frozen:
            yield Finding(place(now), f"has another plan than the one that was frozen (record {number})")
        if now.status in CLOSED and now.final_decision_id is None:
            yield Finding(place(now), f"is {now.status} without a Decision (record {number})")
        if (now.status == "paused") is not (now.pause is not None):
            yield Finding(place(now), f"is {now.status} and says something else about its pause (record {number})")
        if len(active := [r for r, status in self.statuses.items() if status in ACTIVE]) > 1:
            yield Finding(place(now), f"is active beside another: {', '.join(active)} (record {number})")


def overspent(state: State, checked: Counter[str]) -> Iterator[Finding]:
    """Yields each Round that used more than its frozen plan allows."""
    batches, candidates = state.all(Batch), state.all(Candidate)
    for value in state.all(Round):
        if value.plan is None:
            continue
        checked["budgets"] += 1
        used = budget.account(value, value.plan, batches).used
        if used > (limit := value.plan.budget.executions):
            yield Finding(place(value), f"used {used} Executions of {limit}")
        drafted = sum(c.round_id == value.id for c in candidates)
        if drafted > (most := value.plan.budget.candidates):
            yield Finding(place(value), f"has {drafted} candidates of {most}")
