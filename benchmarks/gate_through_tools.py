"""Draws and sizes of benchmarks/gate_errors.py through compare_and_gate itself: stored, judged and compared."""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.gate_model import Mix, Outcomes, Scenario, Terms, result_of, standard_mix, table
from operations.verification import verify
from storage.project import Project
from tests.operations.catalog.evidence import store_batch
from tests.operations.catalog.stages import EXACT, Staged, Stages, issue

SCENARIOS: tuple[Scenario, ...] = ("unchanged", "regression", "fix", "fix and break two")
DIMENSIONS = ["correct", "safe", "format"]
LIMIT = 8_000
"""Bytes of an answer."""


class Bed:
    """A Round with a sealed candidate, of which each comparison gets a copy of its own."""

    def __init__(self, top: Path, mix: Mix, repeats: int, dimensions: list[str], candidates: int = 1) -> None:
        cases = len(mix.rates)
        self.top, self.repeats, self.more = top, repeats, dimensions[1:]
        self.base = Stages(str(top / "stages")).copy("initialized", str(top / "base"))
        self.base.write_cases([(f"c{n}", f"ticket {n}", "yes") for n in range(cases)])
        ids = self.base.ids
        ids["dataset_id"] = self.base.store_cases()
        head = store_batch(self.base, "revision-1-head", lambda *_: "no")
        rows = self._rows(self.base, head, cases)
        spec = {"dimensions": dimensions, "dimension_rules": dict.fromkeys(dimensions, "as expected")}
        judged = self.base.call("store_assessment", batch_id=head, evaluation_spec=spec, judger=EXACT, **rows)
        ids |= {"spec_id": judged.spec_id, "judger_id": judged.judger_id}
        made = self.base.call("create_round", batch_ids=[head], assessment_ids=[judged.assessment_id])
        ids |= {"round_id": made.round_id, "b0": made.revision_id}
        named = issue("targets", *mix.case_ids[: mix.targets])
        found = self.base.call("store_diagnosis", round_id=made.round_id, issues=[named])
        ids["issue_id"] = found.issue_id
        plan = {"incremental_repeats": repeats, "final_repeats": repeats, "screening": False}
        plan["budget"] = {"candidates": candidates}
        self.base.call("freeze_round", round_id=made.round_id, plan=plan)
        made = self.base.call("prepare_candidate", round_id=made.round_id, primary_issue_id=found.issue_id)
        ids["candidate_id"] = made.candidate_id
        self.base.write("prompt.txt", "changed\n")
        self.base.seal()

    def copy(self, left: Outcomes, right: Outcomes) -> Staged:
        """Returns a target of its own in which both sides are stored and judged."""
        root = self.top / "draw"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.base.root, root, symlinks=True)
        target = Staged(str(root), dict(self.base.ids))
        self.store(target, "left", target.b0, left)
        self.store(target, "right", target.revision_id, right)
        return target

    def store(
        self, target: Staged, side: str, revision_id: str, outcomes: Outcomes, phase: str = "incremental"
    ) -> None:
        """Stores and judges one side of a comparison."""

        def answer(case_id: str, repeat: int) -> str:
            return "yes" if outcomes[case_id][repeat - 1] == "pass" else "no"

        batch_id = store_batch(target, revision_id, answer, repeats=self.repeats, round_id=target.round_id, phase=phase)
        rows = self._rows(target, batch_id, len(outcomes) * self.repeats)
        target.ids[f"{side}_assessment_id"] = target.judge(batch_id, **rows)

    def _rows(self, target: Staged, batch_id: str, records: int) -> dict[str, str]:
        """Returns a file of verdicts for the dimensions that no rule judges: one Record in twenty fails."""
        if not self.more:
            return {}
        rows = [
            {"record_id": f"{batch_id}.{n}", "dimension": dimension, "verdict": "pass" if n % 20 else "fail"}
            for dimension in self.more
            for n in range(1, records + 1)
        ]
        target.write("verdicts.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return {"rows_file": "verdicts.jsonl"}


def draws(number: int, rng: random.Random, scenarios: tuple[Scenario, ...] = SCENARIOS) -> dict[Scenario, Counter[str]]:
    """Prints the results of `number` draws for each change. Returns them by scenario.

    Raises:
        RuntimeError: A stored comparison came to another result than the rules alone, or cannot be verified.
    """
    mix, terms = standard_mix(20), Terms(repeats=5)
    results: dict[Scenario, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as top:
        bed = Bed(Path(top), mix, terms.repeats, ["correct"])
        for scenario in scenarios:
            found: Counter[str] = Counter()
            for _ in range(number):
                left, right = (table(rates, terms.repeats, rng) for rates in (mix.rates, mix.changed(scenario)))
                target = bed.copy(left, right)
                found[agreed(target.compare().result, result_of(mix, left, right, terms))] += 1
            if wrong := verify(Project.open(target.root)).findings:
                raise RuntimeError(f"the store of the last draw is not what was recorded: {wrong[:3]}")
            results[scenario] = found
            shares = ", ".join(f"{name} {count / number:.3f}" for name, count in found.most_common())
            print(f"through compare_and_gate, 20 Cases x 5, {scenario}, {number} draws: {shares}", flush=True)
    return results


def agreed(result: str, alone: str) -> str:
    """Returns the result of a stored comparison.

    Raises:
        RuntimeError: It is not what the rules alone come to on the same draws.
    """
    if result != alone:
        raise RuntimeError(f"compare_and_gate says {result}, and the rules alone say {alone}")
    return result


def scale(sizes: tuple[int, ...] = (100, 200, 500, 1000)) -> float:
    """Prints how long one compare_and_gate takes by Cases x 5 repeats x 3 dimensions. Returns the fitted exponent.

    Raises:
        RuntimeError: An answer is larger than it may be.
    """
    rng, points = random.Random(1), []
    for cases in sizes:
        with tempfile.TemporaryDirectory() as top:
            mix = standard_mix(cases)
            bed = Bed(Path(top), mix, 5, DIMENSIONS)
            target = bed.copy(table(mix.rates, 5, rng), table(mix.changed("fix"), 5, rng))
            began = time.process_time()
            answer = target.compare()
            seconds = time.process_time() - began
            size = len(answer.model_dump_json())
            if size > LIMIT:
                raise RuntimeError(f"the answer has {size} bytes, and {LIMIT} are allowed")
            points.append((math.log(cases), math.log(seconds)))
            print(f"{cases} Cases x 5 x 3: {seconds:.2f} s of processor, answer of {size} bytes", flush=True)
    means = [sum(p[i] for p in points) / len(points) for i in (0, 1)]
    spread = sum((x - means[0]) ** 2 for x, _ in points)
    exponent = sum((x - means[0]) * (y - means[1]) for x, y in points) / spread
    print(f"time grows with the Cases to the power {exponent:.2f}", flush=True)
    return exponent
