"""Whole Rounds of benchmarks/gate_errors.py through the operations: stored, judged, compared, kept and finished."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.gate_model import Mix, Terms, result_of, standard_mix, table
from benchmarks.gate_through_tools import Bed, agreed
from operations.verification import verify
from storage.project import Project
from tests.operations.catalog.stages import Staged

CANDIDATES = 8


def _verified(target: Staged) -> None:
    if wrong := verify(Project.open(target.root)).findings:
        raise RuntimeError(f"the store of a Round is not what was recorded: {wrong[:3]}")


def completes(bed: Bed, mix: Mix, terms: Terms, rng: random.Random) -> bool:
    """Takes a true fix through its look, the decision, both final batches and finish_round. Returns whether it did.

    Raises:
        RuntimeError: A comparison came to another result than the rules alone on the same draws.
    """
    before, after = mix.rates, mix.changed("fix")
    left, right = (table(rates, terms.repeats, rng) for rates in (before, after))
    target = bed.copy(left, right)
    if agreed(target.compare().result, result_of(mix, left, right, terms)) != "pass":
        return False
    target.decide("keep")
    left, right = (table(rates, terms.repeats, rng) for rates in (before, after))
    bed.store(target, "final_left", target.b0, left, "final")
    bed.store(target, "final_right", target.revision_id, right, "final")
    if agreed(target.compare("final").result, result_of(mix, left, right, replace(terms, mode="final"))) != "pass":
        return False
    target.call("finish_round", round_id=target.round_id, action="complete", reason="it passed")
    if target.round.status != "completed":
        raise RuntimeError(f"the Round is {target.round.status}")
    _verified(target)
    return True


def keeps_one(bed: Bed, mix: Mix, terms: Terms, rng: random.Random) -> bool:
    """Takes `CANDIDATES` changes without effect through a Round, one after another. Returns whether one was kept.

    Raises:
        RuntimeError: A comparison came to another result than the rules alone at the same look.
    """
    left = table(mix.rates, terms.repeats, rng)
    right = table(mix.rates, terms.repeats, rng)
    target = bed.copy(left, right)
    for look in range(1, CANDIDATES + 1):
        if look > 1:
            made = target.call("prepare_candidate", round_id=target.round_id, primary_issue_id=target.issue_id)
            target.ids["candidate_id"] = made.candidate_id
            target.write("prompt.txt", f"changed for the {look}. time\n")
            target.seal()
            right = table(mix.rates, terms.repeats, rng)
            bed.store(target, "right", target.revision_id, right)
        alone = result_of(mix, left, right, replace(terms, look=look))
        if agreed(target.compare().result, alone) == "pass":
            target.decide("keep")
            return True
        target.decide("reject")
    _verified(target)
    return False


def print_rounds(number: int, seed: int) -> None:
    """Prints how many of `number` Rounds a true fix completes; of a quarter as many, how many keep a useless change."""
    for cases, repeats, targets in ((20, 5, 4), (12, 10, 3)):
        mix, terms, rng = standard_mix(cases, targets), Terms(repeats=repeats), random.Random(f"{seed}/{cases}")
        with tempfile.TemporaryDirectory() as top:
            bed = Bed(Path(top), mix, repeats, ["correct"])
            done = sum(completes(bed, mix, terms, rng) for _ in range(number))
        print(f"through finish_round, a true fix, {cases} Cases x {repeats}: {done} of {number} Rounds", flush=True)
    mix, terms, rng, fewer = standard_mix(20), Terms(repeats=5), random.Random(f"{seed}/eight"), max(1, number // 4)
    with tempfile.TemporaryDirectory() as top:
        bed = Bed(Path(top), mix, terms.repeats, ["correct"], CANDIDATES)
        kept = sum(keeps_one(bed, mix, terms, rng) for _ in range(fewer))
    print(
        f"through the operations, eight changes without effect, at least one kept: {kept} of {fewer} Rounds", flush=True
    )
